package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// watermark is the instant up to which keys may be forgotten.
type watermark struct{ pgtype.Timestamptz }

// before reports whether a fact of that time is younger than the watermark, so that its key is remembered for certain.
func (w watermark) before(t time.Time) bool {
	return w.InfinityModifier == pgtype.NegativeInfinity || w.Valid && w.InfinityModifier == pgtype.Finite && w.Time.Before(t)
}
