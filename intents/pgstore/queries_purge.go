package pgstore

import _ "embed"

// The statements of retention, one file each.
var (
	//go:embed queries/watermark.sql
	watermarkSQL string
	//go:embed queries/watermark_line.sql
	watermarkLineSQL string
	//go:embed queries/watermark_move.sql
	watermarkMoveSQL string
	//go:embed queries/lock_patience.sql
	lockPatienceSQL string
	//go:embed queries/purge_plan.sql
	purgePlanSQL string
	//go:embed queries/purge_keys_page.sql
	purgeKeysPageSQL string
	//go:embed queries/purge_keys_lock.sql
	purgeKeysLockSQL string
	//go:embed queries/purge_keys.sql
	purgeKeysSQL string
	//go:embed queries/purge_contents_page.sql
	purgeContentsPageSQL string
	//go:embed queries/purge_contents.sql
	purgeContentsSQL string
	//go:embed queries/purge_intents_page.sql
	purgeIntentsPageSQL string
	//go:embed queries/purge_intents.sql
	purgeIntentsSQL string
	//go:embed queries/purge_refusals_page.sql
	purgeRefusalsPageSQL string
	//go:embed queries/purge_refusals.sql
	purgeRefusalsSQL string
)
