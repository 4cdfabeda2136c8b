package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// Claim claims up to req.N due intents of a channel. See dispatch.Store.
func (s *Store) Claim(ctx context.Context, req intents.ClaimRequest) (claims []intents.Claim, err error) {
	if req.N <= 0 {
		return nil, nil
	}
	err = s.do(ctx, "claim", func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, claimSQL, req.Channel, req.KeyScope, req.Owner, req.Lease, req.N, req.Token, req.KeyWindow)
		claims, err = pgx.CollectRows(rows, scanClaim)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// TakeOver re-claims intents whose lease ran out. See dispatch.Store. It returns at most 2n claims: n new ones, and what owner took
// over before and has not settled.
func (s *Store) TakeOver(ctx context.Context, channels []string, owner string, lease time.Duration, n int) (claims []intents.Claim, err error) {
	if n <= 0 || len(channels) == 0 {
		return nil, nil
	}
	err = s.doTx(ctx, "take over", func(ctx context.Context, tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, takeOverSQL, channels, owner, lease, n)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		if claims = nil; len(ids) > 0 {
			rows, _ = tx.Query(ctx, claimsHeldSQL, ids, owner)
			if claims, err = pgx.CollectRows(rows, scanClaim); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, staleBatchesSQL)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// scanClaim reads the columns that claim.sql and claims_held.sql return.
func scanClaim(row pgx.CollectableRow) (c intents.Claim, err error) {
	var key string
	var expires, notBefore, firstUsed *time.Time
	err = row.Scan(&c.ID, &c.Generation, &c.Identity.Caller, &c.Identity.Channel, &key, &c.Identity.Revision, &c.Recipient, &c.Rendered,
		&c.EffectKey, &c.CollapseKey, &c.Priority, &expires, &c.Traceparent, &c.CreatedAt, &notBefore, &c.Guarantee, &c.Doubt, &firstUsed,
		&c.KeyScope, &c.Attempts, &c.Takeovers, &c.ClaimedAt, &c.Forgotten)
	c.Identity.Key = dedup.Key(key)
	c.ExpiresAt, c.FirstUsedAt = orZero(expires), orZero(firstUsed)
	c.DueSince = dueSince(c.CreatedAt, orZero(notBefore))
	return c, err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
