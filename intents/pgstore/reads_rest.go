package pgstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onebell/onebell/intents"
)

// ListRefusals returns refusals, newest first.
func (s *Store) ListRefusals(ctx context.Context, f intents.RefusalFilter) ([]intents.Refusal, error) {
	before, id := timestamp(f.BeforeAt, pgtype.Infinity), f.Before
	if id == uuid.Nil {
		id = uuid.Max
	}
	var list []intents.Refusal
	err := s.snapshot(ctx, "list refusals", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readRefusalsSQL, scanRefusal, before, id,
			timestamp(f.Since, pgtype.NegativeInfinity), timestamp(f.Until, pgtype.Infinity),
			f.Caller, f.Channel, f.Key, f.Code, string(f.Verdict), max(1, min(f.Limit, intents.MaxPage)))
		return err
	})
	return list, err
}

func scanRefusal(row pgx.CollectableRow) (r intents.Refusal, err error) {
	var intent pgtype.UUID
	var seq int64
	err = row.Scan(&r.ID, &r.At, &r.Verdict, &r.Code, &r.Message, &r.Fields, &r.Caller, &r.Channel, &r.Key, &r.Revision,
		&intent, &r.Subject, &seq, &r.Sample)
	r.At, r.Intent, r.StreamSeq = r.At.UTC(), uuid.UUID(intent.Bytes), uint64(seq)
	return r, err
}

// Stats counts the intents created since then, and every open one, as of one moment; of one caller, or of all when caller is "".
// Its cost grows with the number of intents that it counts.
func (s *Store) Stats(ctx context.Context, caller string, since time.Time) (intents.Stats, error) {
	var st intents.Stats
	err := s.snapshot(ctx, "count intents", func(ctx context.Context, tx pgx.Tx) (err error) {
		st, err = stats(ctx, tx, caller, since)
		return err
	})
	return st, err
}

func stats(ctx context.Context, tx pgx.Tx, caller string, since time.Time) (intents.Stats, error) {
	st := intents.Stats{Since: since.UTC(), Refusals: map[string]int64{}}
	byName := channelCounts{stats: &st, at: map[string]int{}}
	low := idAt(since.Add(-2 * time.Millisecond))
	if err := each(ctx, tx, readStatsSQL, byName.states, low, since, caller); err != nil {
		return st, err
	}
	if err := each(ctx, tx, readOldestSQL, byName.oldest, caller); err != nil {
		return st, err
	}
	refusals := func(row pgx.CollectableRow) error {
		var code string
		var n int64
		err := row.Scan(&code, &n)
		st.Refusals[code] = n
		return err
	}
	if err := each(ctx, tx, readRefusalCodesSQL, refusals, since, caller); err != nil {
		return st, err
	}
	err := tx.QueryRow(ctx, readOutboxSizeSQL).Scan(&st.Now, &st.Outbox)
	st.Now = st.Now.UTC()
	return st, err
}

// channelCounts gathers a channel's figures from several queries.
type channelCounts struct {
	stats *intents.Stats
	at    map[string]int
}

func (c channelCounts) of(channel string) *intents.ChannelStats {
	i, ok := c.at[channel]
	if !ok {
		i = len(c.stats.Channels)
		c.at[channel] = i
		c.stats.Channels = append(c.stats.Channels, intents.ChannelStats{Channel: channel, ByState: map[intents.State]int64{}})
	}
	return &c.stats.Channels[i]
}

func (c channelCounts) states(row pgx.CollectableRow) error {
	var channel string
	var state intents.State
	var n, possible int64
	if err := row.Scan(&channel, &state, &n, &possible); err != nil {
		return err
	}
	ch := c.of(channel)
	ch.ByState[state] = n
	ch.PossibleDuplicates += possible
	return nil
}

func (c channelCounts) oldest(row pgx.CollectableRow) error {
	var channel string
	var due, unknown pgtype.Timestamptz
	if err := row.Scan(&channel, &due, &unknown); err != nil {
		return err
	}
	ch := c.of(channel)
	ch.OldestDue, ch.OldestUnknown = utc(due), utc(unknown)
	return nil
}

func each(ctx context.Context, tx pgx.Tx, sql string, read func(pgx.CollectableRow) error, args ...any) error {
	_, err := collect(ctx, tx, sql, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, read(row) }, args...)
	return err
}
