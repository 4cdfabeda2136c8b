package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// Unknowns returns UNKNOWN intents about which the provider is to be asked now. See dispatch.Store.
func (s *Store) Unknowns(ctx context.Context, channel string, n int) (questions []intents.Question, err error) {
	err = s.do(ctx, "look for unknown intents", func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, unknownsSQL, channel, n)
		questions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (q intents.Question, err error) {
			var created time.Time
			var expires, notBefore *time.Time
			err = row.Scan(&q.ID, &q.Generation, &q.EffectKey, &q.CollapseKey, &q.Recipient, &q.Rendered, &q.Priority, &expires, &q.Attempts,
				&created, &notBefore)
			q.ExpiresAt, q.DueSince = orZero(expires), dueSince(created, orZero(notBefore))
			return q, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return questions, nil
}

// LookedUp records what a provider answered as evidence, the same answer once, and settles the intent where that is definite. See
// dispatch.Store.
func (s *Store) LookedUp(ctx context.Context, a intents.Answer) (intents.Settled, error) {
	return s.hear(ctx, heard{source: lookUp, id: a.ID, generation: a.Generation, by: a.Actor, outcome: a.Outcome, hold: a.Hold})
}
