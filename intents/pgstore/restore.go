package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onebell/onebell/intents"
)

const (
	restoreBatch = 1000             // open intents that one statement marks
	restoreFor   = 30 * time.Minute // bounds the one transaction that marks them all
	untilAhead   = 5 * time.Minute  // how far a gap may end ahead: as far as the fact of a producer whose clock is fast
)

// AtWorkError says that a database cannot be marked as restored, because somebody works on it, or may.
type AtWorkError struct{ Reason string }

func (e *AtWorkError) Error() string { return e.Reason }

// UntilError says that a gap cannot end at the instant given.
type UntilError struct{ Reason string }

func (e *UntilError) Error() string { return e.Reason }

// Restore marks a database that was restored from a backup, in one transaction, during which nobody can change an intent: see
// intents.AfterRestore for what becomes of what is open. It refuses with an *AtWorkError while dispatchers are connected, or while leases stand
// that nobody vouched for. It is all or nothing; called again with the same end of the gap it changes nothing more.
func (s *Store) Restore(ctx context.Context, r intents.Restoration) (done intents.Restored, err error) {
	run := uuid.New()
	err = s.do(ctx, "look whether anybody is at work", func(ctx context.Context, c *pgx.Conn) error {
		_, _, err := restoreIdle(ctx, c, r.Stopped)
		return err
	})
	if err == nil {
		err = s.within(ctx, restoreFor, func(ctx context.Context, c *pgx.Conn) error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
				if done, err = restoreIn(ctx, tx, r, run); err == nil && r.DryRun {
					err = errDryRun
				}
				return err
			})
		})
	}
	var atWork *AtWorkError
	var until *UntilError
	var answer *pgconn.PgError
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, errDryRun):
		done.Run = uuid.Nil
		return done, nil
	case errors.As(err, &atWork):
		return intents.Restored{}, atWork
	case errors.As(err, &until):
		return intents.Restored{}, until
	case errors.As(err, &answer) && (answer.Code == "55P03" || answer.Code == "40P01"): // lock timeout, deadlock
		return intents.Restored{}, &AtWorkError{"somebody holds locks in this database; stop every dispatcher and run it again"}
	}
	return intents.Restored{}, &storeError{"mark a restored database", err}
}

func restoreIn(ctx context.Context, tx pgx.Tx, r intents.Restoration, run uuid.UUID) (intents.Restored, error) {
	done := intents.Restored{Run: run}
	if _, err := tx.Exec(ctx, restoreWatermarkSQL, nil); err != nil { // locked first, as whoever admits does
		return done, err
	}
	if _, err := tx.Exec(ctx, restoreFreezeSQL); err != nil {
		return done, err
	}
	now, newest, err := restoreIdle(ctx, tx, r.Stopped) // again: from here on a dispatcher that starts finds its work marked
	if err != nil {
		return done, err
	}
	if done.Until, err = gapEnd(r.Until, now, newest); err != nil {
		return done, err
	}
	var move, mark *time.Time
	if r.Refuse {
		move = &done.Until
	}
	if err := tx.QueryRow(ctx, restoreWatermarkSQL, move).Scan(&mark); err != nil {
		return done, err
	}
	done.Watermark = orZero(mark)
	counts, changed := map[string]*intents.RestoredChannel{}, 0
	for after := uuid.Nil; ; {
		relics, err := restoreOpen(ctx, tx, after)
		if err != nil {
			return done, err
		}
		if len(relics) == 0 {
			break
		}
		n, err := restoreMark(ctx, tx, relics, done.Until, counts, r.Actor)
		if err != nil {
			return done, err
		}
		changed, after = changed+n, relics[len(relics)-1].ID
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		done.Channels = append(done.Channels, *counts[name])
	}
	return done, audit(ctx, tx, "restore-mark", run, r.Act, nil, changed, map[string]any{
		"until": done.Until, "gap_refused": r.Refuse, "channels": done.Channels,
	})
}

// gapEnd is the end of the gap: now, or what was given, where that can be.
func gapEnd(given, now, newest time.Time) (time.Time, error) {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case given.IsZero():
		return now, nil
	case given.After(now.Add(untilAhead)):
		return now, &UntilError{fmt.Sprintf("the gap cannot end at %s: the database's clock says %s", stamp(given), stamp(now))}
	case given.Before(newest):
		return now, &UntilError{fmt.Sprintf("the gap cannot end at %s: this database has an intent of %s; say when the last dispatcher stopped", stamp(given), stamp(newest))}
	}
	return given, nil
}

// queryer is a connection, or a transaction on one.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// restoreIdle returns the database's clock and the time of its newest intent, or why it is no time to mark anything.
func restoreIdle(ctx context.Context, q queryer, vouched bool) (now, newest time.Time, err error) {
	var last, created *time.Time
	var sessions, owners []string
	if err := q.QueryRow(ctx, restoreIdleSQL).Scan(&now, &created, &sessions, &owners, &last); err != nil {
		return now, newest, err
	}
	switch newest = orZero(created); {
	case len(sessions) > 0:
		return now, newest, &AtWorkError{"dispatchers are connected to this database (" + strings.Join(sessions, ", ") + "); stop them first (onebell serve, onebell dev)"}
	case len(owners) > 0 && !vouched:
		return now, newest, &AtWorkError{fmt.Sprintf("leases stand until %s (%s): stop every dispatcher and wait, or say with --stopped that all are stopped",
			orZero(last).UTC().Format(time.RFC3339), strings.Join(owners, ", "))}
	}
	return now, newest, nil
}

func restoreOpen(ctx context.Context, tx pgx.Tx, after uuid.UUID) ([]intents.Relic, error) {
	rows, _ := tx.Query(ctx, restoreOpenSQL, after, restoreBatch)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r intents.Relic, err error) {
		var due, claimed, used, reached *time.Time
		err = row.Scan(&r.ID, &r.Generation, &r.State, &r.Channel, &r.Guarantee, &r.Owner, &r.Doubt, &r.Accepted, &r.Superseded, &r.Marked,
			&due, &r.UpdatedAt, &claimed, &used, &reached)
		r.DueAt, r.ClaimedAt, r.FirstUsedAt, r.ReachedAt = orZero(due), orZero(claimed), orZero(used), orZero(reached)
		return r, err
	})
}

// restoreMark marks a batch and says how many intents that changed.
func restoreMark(ctx context.Context, tx pgx.Tx, relics []intents.Relic, until time.Time, counts map[string]*intents.RestoredChannel,
	actor string,
) (int, error) {
	var marks []transition
	var used []time.Time
	var who []string
	for _, r := range relics {
		c := counts[r.Channel]
		if c == nil {
			c = &intents.RestoredChannel{Channel: r.Channel}
			counts[r.Channel] = c
		}
		to, first, ok := intents.AfterRestore(r, until)
		count(c, r, to, ok)
		if ok {
			marks, used, who = append(marks, transition{r.ID, r.Generation, r.State, to}), append(used, first), append(who, r.Owner)
		}
	}
	if len(marks) == 0 {
		return 0, nil
	}
	ids, generations, from, to := columns(marks)
	rows, _ := tx.Query(ctx, restoreMarkSQL, ids, generations, from, to, used, who)
	made, err := pgx.CollectRows(rows, scanTransition)
	if err == nil && len(made) != len(marks) {
		err = fmt.Errorf("%d of %d intents were marked", len(made), len(marks)) // nobody else can change them: this cannot be
	}
	if err != nil {
		return 0, err
	}
	return len(made), note(ctx, tx, made, cause{name: "restored", actor: actor, detail: "restored from a backup"})
}

func count(c *intents.RestoredChannel, r intents.Relic, to intents.State, ok bool) {
	switch {
	case !ok && r.Marked:
		c.Before++
	case !ok && r.State == intents.Pending:
		c.NotDue++
	case to == intents.UnknownState:
		c.Unknown++
	case to == intents.Pending:
		c.InDoubt++
	case to == intents.Succeeded:
		c.Succeeded++
	}
}
