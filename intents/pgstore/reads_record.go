package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onebell/onebell/intents"
)

// GetRecord returns an intent with its attempts, changes and evidence as of one moment.
func (s *Store) GetRecord(ctx context.Context, id uuid.UUID) (intents.Record, bool, error) {
	var record intents.Record
	var found bool
	err := s.snapshot(ctx, "read an intent", func(ctx context.Context, tx pgx.Tx) error {
		record, found = intents.Record{}, false
		list, err := loadIntents(ctx, tx, []uuid.UUID{id})
		if err != nil || len(list) == 0 {
			return err
		}
		record.Intent, found = list[0], true
		if record.Attempts, err = collect(ctx, tx, readAttemptsSQL, scanAttempt, id); err != nil {
			return err
		}
		if record.Changes, err = collect(ctx, tx, readChangesSQL, scanChange, id); err != nil {
			return err
		}
		record.Evidence, err = collect(ctx, tx, readEvidenceSQL, scanEvidence, id)
		return err
	})
	if err != nil {
		return intents.Record{}, false, err
	}
	return record, found, nil
}

// loadIntents returns the intents of those ids that there are, newest first.
func loadIntents(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]intents.Intent, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return collect(ctx, tx, readIntentsSQL, func(row pgx.CollectableRow) (intents.Intent, error) { return scanIntent(row) }, ids)
}

func collect[T any](ctx context.Context, tx pgx.Tx, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// utc is the zero time for null and for infinity.
func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time.UTC()
}

func scanAttempt(row pgx.CollectableRow) (a intents.Attempt, err error) {
	err = row.Scan(&a.Generation, &a.Owner, &a.StartedAt, &a.EndedAt, &a.Result, &a.Phase, &a.Code, &a.Message, &a.ProviderID, &a.State)
	a.StartedAt, a.EndedAt = a.StartedAt.UTC(), a.EndedAt.UTC()
	return a, err
}

func scanChange(row pgx.CollectableRow) (c intents.Change, err error) {
	err = row.Scan(&c.Generation, &c.From, &c.To, &c.At, &c.Cause, &c.Actor, &c.Detail)
	c.At = c.At.UTC()
	return c, err
}

func scanEvidence(row pgx.CollectableRow) (e intents.Evidence, err error) {
	err = row.Scan(&e.At, &e.Source, &e.Generation, &e.Result, &e.Code, &e.Message, &e.ProviderID, &e.Settled)
	e.At = e.At.UTC()
	return e, err
}
