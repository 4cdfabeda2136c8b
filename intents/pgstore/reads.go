package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// What a page costs at most where no index serves the filter: so many rows are looked at, in steps that grow fourfold, so that
// a page that fills at once costs little. And how many of the newest intents say which callers and channels there are.
const (
	walkFirst = 1000
	walkLast  = 256000
	pairRows  = 50000
)

// ListIntents returns a page of intents, newest first, as of one moment. Three questions have indexes: a key with its caller and
// channel; a state that is open (pending, sending, unknown); a time span. Everything else walks the ids, a bounded number per
// page: Page.Next then leads on even from a page that is not full. A key whose caller or channel is not given is tried with the
// callers and channels of the newest intents, and walked for only if none of those has it.
func (s *Store) ListIntents(ctx context.Context, f intents.Filter) (intents.Page, error) {
	f.Limit = max(1, min(f.Limit, intents.MaxPage))
	var page intents.Page
	err := s.snapshot(ctx, "list intents", func(ctx context.Context, tx pgx.Tx) error {
		ids, next, err := pick(ctx, tx, f)
		if err != nil {
			return err
		}
		page.Next = next
		page.Intents, err = loadIntents(ctx, tx, ids)
		return err
	})
	if err != nil {
		return intents.Page{}, err
	}
	return page, nil
}

// snapshot is do with a read-only transaction around the step, all of whose statements see one moment.
func (s *Store) snapshot(ctx context.Context, what string, step func(context.Context, pgx.Tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return pgx.BeginTxFunc(ctx, c, o, func(tx pgx.Tx) error { return step(ctx, tx) })
	})
}

// pick finds the ids of a page, newest first, and the cursor of the next one.
func pick(ctx context.Context, tx pgx.Tx, f intents.Filter) ([]uuid.UUID, uuid.UUID, error) {
	before, low := idRange(f)
	if f.Key != "" {
		facts, err := factsOf(ctx, tx, f)
		if err != nil {
			return nil, uuid.Nil, err
		}
		ids, next, err := pickFrom(ctx, tx, f, readFactsSQL, before, low, facts)
		if err != nil || len(ids) > 0 || f.Caller != "" && f.Channel != "" {
			return ids, next, err
		}
	}
	switch f.State {
	case intents.Pending:
		return pickFrom(ctx, tx, f, readOpenSQL, before, low, "due")
	case intents.UnknownState:
		return pickFrom(ctx, tx, f, readOpenSQL, before, low, "unknown")
	case intents.Sending:
		return pickFrom(ctx, tx, f, readOnWireSQL, before, low)
	}
	return walk(ctx, tx, f, before, low)
}

// factsOf returns the facts that the filter's key may stand for.
func factsOf(ctx context.Context, tx pgx.Tx, f intents.Filter) ([][]byte, error) {
	fact := func(caller, channel string) []byte {
		sum := dedup.Identity{Caller: caller, Channel: channel, Key: dedup.Key(f.Key)}.Fact()
		return sum[:]
	}
	if f.Caller != "" && f.Channel != "" {
		return [][]byte{fact(f.Caller, f.Channel)}, nil
	}
	rows, err := tx.Query(ctx, readPairsSQL, pairRows)
	if err != nil {
		return nil, err
	}
	var caller, channel string
	var facts [][]byte
	_, err = pgx.ForEachRow(rows, []any{&caller, &channel}, func() error {
		if (f.Caller == "" || f.Caller == caller) && (f.Channel == "" || f.Channel == channel) {
			facts = append(facts, fact(caller, channel))
		}
		return nil
	})
	return facts, err
}

// pickFrom runs a query that finds all matching ids by an index; own is the argument that it alone has.
func pickFrom(ctx context.Context, tx pgx.Tx, f intents.Filter, sql string, before, low uuid.UUID, own ...any) ([]uuid.UUID, uuid.UUID, error) {
	ids, err := collectIDs(ctx, tx, sql, append(filterArgs(f, before, low, f.Limit+1), own...)...)
	if err != nil || len(ids) <= f.Limit {
		return ids, uuid.Nil, err
	}
	return ids[:f.Limit], ids[f.Limit-1], nil
}

// walk looks through the ids from before down to low, step by step.
func walk(ctx context.Context, tx pgx.Tx, f intents.Filter, before, low uuid.UUID) ([]uuid.UUID, uuid.UUID, error) {
	var found []uuid.UUID
	for rows := walkFirst; rows <= walkLast; rows *= 4 {
		floor, last := low, false
		switch err := tx.QueryRow(ctx, readWalkFloorSQL, before, low, rows).Scan(&floor); {
		case errors.Is(err, pgx.ErrNoRows):
			floor, last = low, true
		case err != nil:
			return nil, uuid.Nil, err
		}
		ids, err := collectIDs(ctx, tx, readWalkSQL, filterArgs(f, before, floor, f.Limit+1-len(found))...)
		if err != nil {
			return nil, uuid.Nil, err
		}
		if found = append(found, ids...); len(found) > f.Limit {
			return found[:f.Limit], found[f.Limit-1], nil
		}
		if last {
			return found, uuid.Nil, nil
		}
		before = floor
	}
	return found, before, nil
}

// filterArgs are the arguments that all queries on ids share.
func filterArgs(f intents.Filter, before, low uuid.UUID, limit int) []any {
	since, until := timestamp(f.Since, pgtype.NegativeInfinity), timestamp(f.Until, pgtype.Infinity)
	var hashes any
	if len(f.RecipientHashes) > 0 {
		hashes = f.RecipientHashes
	}
	return []any{before, low, since, until, f.Caller, f.Channel, f.Key, f.Revision, string(f.State), hashes, f.ProviderID, limit}
}

// timestamp stands for "no bound" where t is zero.
func timestamp(t time.Time, instead pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: instead, Valid: true}
	}
	return pgtype.Timestamptz{Time: t.UTC().Truncate(time.Microsecond), Valid: true}
}

// idRange turns cursor and time span into a range of ids, before exclusive. Ids carry milliseconds, so the range is a little wider
// than the span.
func idRange(f intents.Filter) (before, low uuid.UUID) {
	before = uuid.Max
	if f.Before != uuid.Nil {
		before = f.Before
	}
	if !f.Until.IsZero() {
		if id := idAt(f.Until.Add(2 * time.Millisecond)); lessID(id, before) {
			before = id
		}
	}
	if !f.Since.IsZero() {
		low = idAt(f.Since.Add(-2 * time.Millisecond))
	}
	return before, low
}

// idAt returns the least id of that instant.
func idAt(t time.Time) (id uuid.UUID) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(max(0, min(t.UnixMilli(), 1<<48-1))))
	copy(id[:6], b[2:])
	return id
}

func lessID(a, b uuid.UUID) bool { return string(a[:]) < string(b[:]) }

func collectIDs(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
