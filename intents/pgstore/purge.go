package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onebell/onebell/intents"
)

// Watermark reads the watermark. See retention.Store.
func (s *Store) Watermark(ctx context.Context) (w intents.Watermark, err error) {
	err = s.do(ctx, "read the watermark", func(ctx context.Context, c *pgx.Conn) error {
		var at *time.Time
		err := c.QueryRow(ctx, watermarkSQL).Scan(&at, &w.Now)
		w.At = orZero(at)
		return err
	})
	return w, err
}

// MoveWatermark moves the watermark on. See retention.Store.
func (s *Store) MoveWatermark(ctx context.Context, keep, patience time.Duration) (w intents.Watermark, moved bool, err error) {
	if keep <= 0 { // it would move ahead of the clock, and never back
		return w, false, fmt.Errorf("the watermark cannot stay %v behind the clock", keep)
	}
	err = s.do(ctx, "move the watermark", func(ctx context.Context, c *pgx.Conn) error {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockPatienceSQL, strconv.FormatInt(max(1, patience.Milliseconds()), 10)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, watermarkLineSQL); err != nil {
				return err
			}
			return tx.QueryRow(ctx, watermarkMoveSQL, keep).Scan(&w.At, &w.Now)
		})
		if isLockTimeout(err) {
			return nil
		}
		moved = err == nil
		return err
	})
	if err != nil || !moved {
		return intents.Watermark{}, false, err
	}
	return w, true, nil
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// Purgeable returns rows that are old enough to be looked at. See retention.Store.
func (s *Store) Purgeable(ctx context.Context, kind intents.PurgeKind, keep time.Duration, after intents.PurgeMark, n int) (rows []intents.PurgeRow, err error) {
	sql, args, scan, err := purgePage(kind, keep, after, n)
	if err != nil {
		return nil, err
	}
	err = s.do(ctx, "look for purgeable "+string(kind), func(ctx context.Context, c *pgx.Conn) (err error) {
		found, _ := c.Query(ctx, sql, args...)
		rows, err = pgx.CollectRows(found, scan)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// purgePage returns the statement that reads a page of the kind.
func purgePage(kind intents.PurgeKind, keep time.Duration, after intents.PurgeMark, n int) (sql string, args []any, scan pgx.RowToFunc[intents.PurgeRow], err error) {
	ended, id := intents.TerminalStates(), uuid.UUID(after.ID)
	switch kind {
	case intents.PurgeKeys:
		return purgeKeysPageSQL, []any{ended, keep, after.At, after.ID[:], n}, scanPurgeFact, nil
	case intents.PurgeContents:
		return purgeContentsPageSQL, []any{ended, keep, id, n}, scanPurgeID, nil
	case intents.PurgeIntents:
		return purgeIntentsPageSQL, []any{ended, keep, id, n}, scanPurgeID, nil
	case intents.PurgeRefusals:
		return purgeRefusalsPageSQL, []any{keep, after.At, id, n}, scanPurgeTimed, nil
	}
	return "", nil, nil, fmt.Errorf("nothing is known of how to purge %q", kind)
}

func scanPurgeFact(row pgx.CollectableRow) (r intents.PurgeRow, err error) {
	var fact []byte
	err = row.Scan(&r.Mark.At, &fact, &r.Age, &r.Ripe)
	copy(r.Mark.ID[:], fact)
	return r, err
}

func scanPurgeID(row pgx.CollectableRow) (r intents.PurgeRow, err error) {
	var id uuid.UUID
	err = row.Scan(&id, &r.Age, &r.Ripe)
	r.Mark.ID = id
	return r, err
}

func scanPurgeTimed(row pgx.CollectableRow) (r intents.PurgeRow, err error) {
	var id uuid.UUID
	err = row.Scan(&r.Mark.At, &id, &r.Age, &r.Ripe)
	r.Mark.ID = id
	return r, err
}

// Purge deletes those of the rows that may still go. See retention.Store.
func (s *Store) Purge(ctx context.Context, kind intents.PurgeKind, keep time.Duration, rows []intents.PurgeMark) (gone int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	ids, facts, ended := make([]uuid.UUID, len(rows)), make([][]byte, len(rows)), intents.TerminalStates()
	for i := range rows {
		ids[i], facts[i] = rows[i].ID, rows[i].ID[:]
	}
	err = s.doTx(ctx, "purge "+string(kind), func(ctx context.Context, tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, purgePlanSQL); err != nil {
			return err
		}
		var tag pgconn.CommandTag
		switch kind {
		case intents.PurgeKeys:
			tag, err = purgeKeys(ctx, tx, facts, ended, keep)
		case intents.PurgeContents:
			tag, err = tx.Exec(ctx, purgeContentsSQL, ids, ended, keep)
		case intents.PurgeIntents:
			tag, err = tx.Exec(ctx, purgeIntentsSQL, ids, ended, keep)
		case intents.PurgeRefusals:
			tag, err = tx.Exec(ctx, purgeRefusalsSQL, ids, keep)
		}
		gone = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}

// purgeKeys takes two statements: an update or delete looks at the rows of its own snapshot first, so what is deleted is decided by a snapshot
// that is younger than the locks.
func purgeKeys(ctx context.Context, tx pgx.Tx, facts [][]byte, ended []string, keep time.Duration) (pgconn.CommandTag, error) {
	rows, _ := tx.Query(ctx, purgeKeysLockSQL, facts)
	locked, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, purgeKeysSQL, locked, ended, keep)
}
