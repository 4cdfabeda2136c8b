package pgstore

import _ "embed"

// What is read for the admin API, one file each.
var (
	//go:embed queries/read_attempts.sql
	readAttemptsSQL string
	//go:embed queries/read_changes.sql
	readChangesSQL string
	//go:embed queries/read_evidence.sql
	readEvidenceSQL string
	//go:embed queries/read_facts.sql
	readFactsSQL string
	//go:embed queries/read_intents.sql
	readIntentsSQL string
	//go:embed queries/read_oldest.sql
	readOldestSQL string
	//go:embed queries/read_on_wire.sql
	readOnWireSQL string
	//go:embed queries/read_open.sql
	readOpenSQL string
	//go:embed queries/read_outbox_size.sql
	readOutboxSizeSQL string
	//go:embed queries/read_pairs.sql
	readPairsSQL string
	//go:embed queries/read_refusal_codes.sql
	readRefusalCodesSQL string
	//go:embed queries/read_refusals.sql
	readRefusalsSQL string
	//go:embed queries/read_stats.sql
	readStatsSQL string
	//go:embed queries/read_walk_floor.sql
	readWalkFloorSQL string
	//go:embed queries/read_walk.sql
	readWalkSQL string
)
