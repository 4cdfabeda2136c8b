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

	"github.com/onebell/onebell/intents"
)

// restoreBatch is how many open intents one statement marks.
const restoreBatch = 1000

// AtWorkError says that a database cannot be marked as restored, because somebody works on it, or may.
type AtWorkError struct{ Reason string }

func (e *AtWorkError) Error() string { return e.Reason }

// Restore marks a database that was restored from a backup, in one transaction: see intents.AfterRestore for what becomes of what is open. It
// refuses with an *AtWorkError while dispatchers are connected, or while leases stand that nobody vouched for. Called again it changes
// nothing more.
func (s *Store) Restore(ctx context.Context, r intents.Restoration) (done intents.Restored, err error) {
	run := uuid.New()
	err = s.doTx(ctx, "mark a restored database", func(ctx context.Context, tx pgx.Tx) (err error) {
		if done, err = restoreIn(ctx, tx, r, run); err == nil && r.DryRun {
			err = errDryRun
		}
		return err
	})
	if errors.Is(err, errDryRun) {
		done.Run, err = uuid.Nil, nil
	}
	var atWork *AtWorkError
	if errors.As(err, &atWork) {
		err = atWork
	}
	return done, err
}

func restoreIn(ctx context.Context, tx pgx.Tx, r intents.Restoration, run uuid.UUID) (intents.Restored, error) {
	done := intents.Restored{Run: run}
	now, err := restoreIdle(ctx, tx, r.Stopped)
	if err != nil {
		return done, err
	}
	if done.Until = r.Until; done.Until.IsZero() {
		done.Until = now
	}
	if done.Until.After(now) {
		return done, &AtWorkError{fmt.Sprintf("the gap cannot end at %s: the database's clock says %s", done.Until.Format(time.RFC3339), now.Format(time.RFC3339))}
	}
	var move, mark *time.Time
	if r.Refuse {
		move = &done.Until
	}
	if err := tx.QueryRow(ctx, restoreWatermarkSQL, move).Scan(&mark); err != nil {
		return done, err
	}
	done.Watermark = orZero(mark)
	if _, err := tx.Exec(ctx, restoreFreezeSQL); err != nil {
		return done, err
	}
	counts, changed := map[string]*intents.RestoredChannel{}, 0
	for after, more := uuid.Nil, true; more; {
		relics, owners, err := restoreOpen(ctx, tx, after)
		if err != nil {
			return done, err
		}
		n, err := restoreMark(ctx, tx, relics, owners, done.Until, counts, r.Actor)
		if err != nil {
			return done, err
		}
		changed += n
		if more = len(relics) == restoreBatch; more {
			after = relics[len(relics)-1].ID
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		done.Channels = append(done.Channels, *counts[name])
	}
	return done, audit(ctx, tx, "restore-mark", run, r.Act, nil, changed, map[string]any{"until": done.Until, "gap_refused": r.Refuse})
}

// restoreIdle returns the database's clock, or why it is no time to mark anything.
func restoreIdle(ctx context.Context, tx pgx.Tx, vouched bool) (now time.Time, err error) {
	var last *time.Time
	var sessions, owners []string
	if err := tx.QueryRow(ctx, restoreIdleSQL).Scan(&now, &sessions, &owners, &last); err != nil {
		return now, err
	}
	switch {
	case len(sessions) > 0:
		return now, &AtWorkError{"dispatchers are connected to this database (" + strings.Join(sessions, ", ") + "); stop them first"}
	case len(owners) > 0 && !vouched:
		return now, &AtWorkError{fmt.Sprintf("leases stand until %s (%s): stop every dispatcher and wait, or say with --stopped that all are stopped",
			orZero(last).UTC().Format(time.RFC3339), strings.Join(owners, ", "))}
	}
	return now, nil
}

func restoreOpen(ctx context.Context, tx pgx.Tx, after uuid.UUID) (relics []intents.Relic, owners map[uuid.UUID]string, err error) {
	rows, _ := tx.Query(ctx, restoreOpenSQL, after, restoreBatch)
	owners = map[uuid.UUID]string{}
	relics, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r intents.Relic, err error) {
		var due, claimed, used *time.Time
		err = row.Scan(&r.ID, &r.Generation, &r.State, &r.Channel, &r.Guarantee, &r.Owner, &r.Doubt, &r.Accepted, &r.Superseded, &r.Marked,
			&due, &r.UpdatedAt, &claimed, &used)
		r.DueAt, r.ClaimedAt, r.FirstUsedAt = orZero(due), orZero(claimed), orZero(used)
		owners[r.ID] = r.Owner
		return r, err
	})
	return relics, owners, err
}

// restoreMark marks a batch and says how many intents that changed.
func restoreMark(ctx context.Context, tx pgx.Tx, relics []intents.Relic, owners map[uuid.UUID]string, until time.Time,
	counts map[string]*intents.RestoredChannel, actor string,
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
			marks, used, who = append(marks, transition{r.ID, r.Generation, r.State, to}), append(used, first), append(who, owners[r.ID])
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
