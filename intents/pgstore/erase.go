package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// Bounds of an erasure's steps: so many intents are looked at by one statement, and forgotten in one transaction.
const (
	eraseStep  = 5000
	eraseBatch = 200
)

var errDryRun = errors.New("a dry run ends so")

// Erase forgets a recipient: content, recipient and labels of their intents, and what providers wrote about them. See intents.Erase
// for what it does to which. It goes through all intents once, oldest first, in small transactions, each with its row in the audit, and disturbs
// nobody. What was admitted before the call is reached for certain; what is admitted during it may not be. After an error, and at any
// time, it may be called again: what is forgotten stays so.
func (s *Store) Erase(ctx context.Context, e intents.Erasure) (intents.Erased, error) {
	done, seen, after := intents.Erased{Run: uuid.New()}, map[string]bool{}, uuid.Nil
	for more := true; more; {
		step, err := s.eraseWalk(ctx, after, e.Hashes)
		if err != nil {
			return done, err
		}
		for _, name := range step.channels {
			seen[name] = true
		}
		for batch := range slices.Chunk(step.found, eraseBatch) {
			if err := s.eraseBatch(ctx, e, batch, &done); err != nil {
				return done, err
			}
		}
		done.Looked, after, more = done.Looked+step.looked, step.end, step.looked == eraseStep
	}
	done.Channels = slices.Sorted(maps.Keys(seen))
	if e.DryRun {
		done.Run = uuid.Nil
		return done, nil
	}
	if done.Erased == 0 && len(done.Cancelled) == 0 { // that it was asked for is on record all the same
		return done, s.doTx(ctx, "audit", func(ctx context.Context, tx pgx.Tx) error {
			return audit(ctx, tx, "erase", done.Run, e.Act, e.Hashes, 0, map[string]int{"left": len(done.Left)})
		})
	}
	return done, nil
}

// eraseStepRow is the row of erase_walk.sql.
type eraseStepRow struct {
	looked   int64
	end      uuid.UUID
	channels []string
	found    []uuid.UUID
}

func (s *Store) eraseWalk(ctx context.Context, after uuid.UUID, hashes [][]byte) (r eraseStepRow, err error) {
	err = s.do(ctx, "look for a recipient", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, eraseWalkSQL, after, hashes, eraseStep).Scan(&r.looked, &r.end, &r.channels, &r.found)
	})
	return r, err
}

// eraseBatch forgets a batch in one transaction, and adds to done what came of it.
func (s *Store) eraseBatch(ctx context.Context, e intents.Erasure, ids []uuid.UUID, done *intents.Erased) error {
	var now intents.Erased
	err := s.doTx(ctx, "erase", func(ctx context.Context, tx pgx.Tx) (err error) {
		if now, err = eraseIn(ctx, tx, e, ids, done.Run); err == nil && e.DryRun {
			err = errDryRun
		}
		return err
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return err
	}
	done.Found += now.Found
	done.Erased += now.Erased
	done.Cancelled = append(done.Cancelled, now.Cancelled...)
	done.Unknown = append(done.Unknown, now.Unknown...)
	done.Left = append(done.Left, now.Left...)
	return nil
}

func eraseIn(ctx context.Context, tx pgx.Tx, e intents.Erasure, ids []uuid.UUID, run uuid.UUID) (done intents.Erased, err error) {
	rows, _ := tx.Query(ctx, eraseLockSQL, ids, e.Hashes)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[eraseRow])
	if err != nil {
		return done, err
	}
	done.Found = len(found)
	var open, gone []transition
	for _, r := range found {
		to, forget := intents.Erase(r.State, r.Doubt, e.CancelOpen)
		if !forget {
			done.Left = append(done.Left, intents.Unerased{ID: r.ID, Channel: r.Channel, State: r.State})
			continue
		}
		t := transition{r.ID, r.Generation, r.State, to}
		gone = append(gone, t)
		if r.State != to {
			open = append(open, t)
		}
		switch {
		case r.State != to && to == intents.Cancelled:
			done.Cancelled = append(done.Cancelled, r.ID)
		case to == intents.UnknownState:
			done.Unknown = append(done.Unknown, r.ID)
		}
	}
	if err := eraseOpen(ctx, tx, open, e.Actor); err != nil {
		return done, err
	}
	if done.Erased, err = eraseContent(ctx, tx, gone); err != nil || done.Erased == 0 {
		return done, err
	}
	return done, audit(ctx, tx, "erase", run, e.Act, e.Hashes, done.Erased, map[string]int{
		"cancelled": len(done.Cancelled), "unknown": len(done.Unknown), "left": len(done.Left),
	})
}

// eraseRow is one row of erase_lock.sql.
type eraseRow struct {
	ID         uuid.UUID
	Generation int32
	State      intents.State
	Doubt      bool
	Channel    string
}

// eraseOpen ends what waits.
func eraseOpen(ctx context.Context, tx pgx.Tx, open []transition, actor string) error {
	if len(open) == 0 {
		return nil
	}
	ids, generations, _, to := columns(open)
	rows, _ := tx.Query(ctx, eraseOpenSQL, ids, generations, to)
	ended, err := pgx.CollectRows(rows, scanTransition)
	if err != nil {
		return err
	}
	if len(ended) != len(open) {
		return errors.New("a locked intent changed") // this cannot be
	}
	return note(ctx, tx, ended, cause{name: "erased", actor: actor})
}

func eraseContent(ctx context.Context, tx pgx.Tx, gone []transition) (n int, err error) {
	if len(gone) == 0 {
		return 0, nil
	}
	ids, generations, _, states := columns(gone)
	err = tx.QueryRow(ctx, eraseContentSQL, ids, generations, states).Scan(&n)
	return n, err
}

// columns lays transitions out as the statements want them: one array a column.
func columns(ts []transition) (ids []uuid.UUID, generations []int32, from, to []string) {
	for _, t := range ts {
		ids, generations, from, to = append(ids, t.id), append(generations, t.generation), append(from, string(t.from)), append(to, string(t.to))
	}
	return ids, generations, from, to
}

// audit puts on record what was done, by whom and why.
func audit(ctx context.Context, tx pgx.Tx, what string, run uuid.UUID, act intents.Act, targets [][]byte, n int, detail any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	if targets = slices.Clone(targets); targets == nil {
		targets = [][]byte{}
	}
	slices.SortFunc(targets, bytes.Compare)
	_, err = tx.Exec(ctx, auditSQL, run, what, clean(act.Actor), clean(act.Reason), clean(act.Place), targets, n, string(text))
	return err
}
