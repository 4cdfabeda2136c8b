package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// DueChannels returns the channels that have something due, paused ones excluded.
func (s *Store) DueChannels(ctx context.Context) (names []string, err error) {
	err = s.do(ctx, "look for due intents", func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, dueChannelsSQL)
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}

// Sweep ends up to n due intents whose time is over. It returns how many.
func (s *Store) Sweep(ctx context.Context, n int) (swept int, err error) {
	err = s.doTx(ctx, "sweep", func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, sweepSQL, n)
		ended, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t transition, err error) {
			t.from = intents.Pending
			err = row.Scan(&t.id, &t.generation, &t.to)
			return t, err
		})
		if err != nil {
			return err
		}
		swept = len(ended)
		return note(ctx, tx, ended, cause{name: "expired"})
	})
	if err != nil {
		return 0, err
	}
	return swept, nil
}

// Pause marks a channel as misconfigured until a try later on. See dispatch.Store.
func (s *Store) Pause(ctx context.Context, channel, keyScope, code, reason string, base, limit time.Duration) error {
	return s.exec(ctx, "pause a channel", pauseChannelSQL, channel, keyScope, clean(code), clean(reason), base, limit)
}

// Resume ends a pause.
func (s *Store) Resume(ctx context.Context, channel string) error {
	return s.exec(ctx, "resume a channel", resumeChannelSQL, channel)
}

// ChannelStates returns the stored state of every channel that has one, by name. A paused one without PausedUntil stays paused until
// it is resumed.
func (s *Store) ChannelStates(ctx context.Context) (states []intents.ChannelState, err error) {
	err = s.do(ctx, "read channel states", func(ctx context.Context, c *pgx.Conn) (err error) {
		rows, _ := c.Query(ctx, channelStatesSQL)
		states, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (st intents.ChannelState, err error) {
			var until *time.Time
			err = row.Scan(&st.Channel, &st.Paused, &until, &st.Code, &st.Reason, &st.Since, &st.KeyScope)
			st.PausedUntil = orZero(until)
			return st, err
		})
		return err
	})
	return states, err
}

func (s *Store) exec(ctx context.Context, what, sql string, args ...any) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	})
}
