package retention

import (
	"context"
	"time"

	"github.com/onebell/onebell/intents"
)

// Store is what retention needs of the intent store. Every method is durable when it returns nil, bounds its own time by ctx, and may be
// called again after an error; an error means that it may or may not have taken effect.
type Store interface {
	// OnDuty takes or renews a duty for owner, or gives it up with a lease of 0; false while another holds it.
	OnDuty(ctx context.Context, duty, owner string, lease time.Duration) (bool, error)
	// Watermark reads the watermark.
	Watermark(ctx context.Context) (intents.Watermark, error)
	// MoveWatermark moves the watermark to keep before the database's clock, unless it is there or further on already. It waits for admissions
	// under way, while new ones wait behind it, no longer than patience; moved is false when that was not enough, and then
	// nothing has changed.
	MoveWatermark(ctx context.Context, keep, patience time.Duration) (w intents.Watermark, moved bool, err error)
	// Purgeable returns up to n rows of the kind that lie behind the mark and outside the window, in the kind's order, and says of
	// each whether it may go. Fewer than n are the last ones. It reads no more than n rows of the kind, and locks none.
	Purgeable(ctx context.Context, kind intents.PurgeKind, keep time.Duration, after intents.PurgeMark, n int) ([]intents.PurgeRow, error)
	// Purge deletes those of the rows that may still go, and all that belongs to them, in one transaction; keys only where the
	// watermark is. It passes over rows that somebody holds, and returns how many went.
	Purge(ctx context.Context, kind intents.PurgeKind, keep time.Duration, rows []intents.PurgeMark) (int, error)
}
