package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// FindByIdentity returns the intent of that identity. See dispatch.Store.
func (s *Store) FindByIdentity(ctx context.Context, id dedup.Identity) (intent intents.Intent, found bool, err error) {
	fact := id.Fact()
	err = s.do(ctx, "find an intent", func(ctx context.Context, c *pgx.Conn) error {
		var err error
		intent, err = scanIntent(c.QueryRow(ctx, findByIdentitySQL, fact[:], id.Revision))
		found = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return intent, found, err
}

// Cancel cancels the intent if it is PENDING and not in doubt. See dispatch.Store.
func (s *Store) Cancel(ctx context.Context, id dedup.Identity, actor string) (intent intents.Intent, found, cancelled bool, err error) {
	for try := 1; ; try++ {
		if err := s.cancel(ctx, id, actor); err != nil {
			return intents.Intent{}, false, false, err
		}
		intent, found, err = s.FindByIdentity(ctx, id)
		if err != nil {
			return intents.Intent{}, false, false, err
		}
		// It may have been handed back just after the statement had seen it on the wire: it waits, so it can be cancelled.
		if missed := found && intent.State == intents.Pending && !intent.Doubt; !missed || try == maxTries {
			return intent, found, intent.State == intents.Cancelled, nil
		}
	}
}

func (s *Store) cancel(ctx context.Context, id dedup.Identity, actor string) error {
	fact := id.Fact()
	return s.doTx(ctx, "cancel", func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, cancelSQL, fact[:], id.Revision)
		ended, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t transition, err error) {
			t.from, t.to = intents.Pending, intents.Cancelled
			err = row.Scan(&t.id, &t.generation)
			return t, err
		})
		if err != nil {
			return err
		}
		return note(ctx, tx, ended, cause{name: "cancel", actor: actor})
	})
}

// scanIntent reads the columns that find_by_identity.sql returns.
func scanIntent(row pgx.Row) (i intents.Intent, err error) {
	var key string
	var notBefore, expires, next, lease, firstUsed *time.Time
	var supersededBy *uuid.UUID
	var labels []byte
	err = row.Scan(&i.ID, &i.Identity.Caller, &i.Identity.Channel, &key, &i.Identity.Revision, &i.State, &i.Guarantee, &i.Generation, &i.Recipient,
		&i.CollapseID, &i.EffectKey, &i.OccurredAt, &i.CreatedAt, &i.UpdatedAt, &notBefore, &expires, &next, &lease, &firstUsed, &i.Owner,
		&i.ProviderID, &i.Code, &i.Message, &i.Attempts, &i.Takeovers, &i.PossibleDuplicates, &i.Doubt, &i.DeadRecipient, &supersededBy,
		&i.Priority, &labels)
	if err != nil {
		return intents.Intent{}, err
	}
	i.Identity.Key = dedup.Key(key)
	i.NotBefore, i.ExpiresAt, i.NextAttemptAt, i.LeaseUntil, i.FirstUsedAt = orZero(notBefore), orZero(expires), orZero(next), orZero(lease), orZero(firstUsed)
	if supersededBy != nil {
		i.SupersededBy = *supersededBy
	}
	if labels != nil {
		err = json.Unmarshal(labels, &i.Labels)
	}
	return i, err
}
