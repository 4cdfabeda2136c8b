package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// Settle writes settlements. See dispatch.Store.
func (s *Store) Settle(ctx context.Context, settlements []intents.Settlement, finished []uuid.UUID) ([]intents.Settled, error) {
	results := make([]intents.Settled, len(settlements))
	parts := settleParts(settlements)
	for p, part := range parts {
		var batches []uuid.UUID
		if p == len(parts)-1 {
			batches = finished // only when all of their intents are settled
		}
		if err := s.settlePart(ctx, settlements, part, batches, results); err != nil {
			return nil, err
		}
	}
	if len(parts) == 0 && len(finished) > 0 {
		return results, s.do(ctx, "finish batches", func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, finishBatchesSQL, finished)
			return err
		})
	}
	return results, nil
}

// settleParts splits settlements so that one statement has each intent once; within a part they are ordered by id, so that two
// statements that meet on several rows do not deadlock.
func settleParts(settlements []intents.Settlement) [][]int {
	times := make(map[uuid.UUID]int, len(settlements))
	var parts [][]int
	for i := range settlements {
		id := settlements[i].ID
		if times[id] == len(parts) {
			parts = append(parts, nil)
		}
		parts[times[id]] = append(parts[times[id]], i)
		times[id]++
	}
	for _, part := range parts {
		slices.SortFunc(part, func(a, b int) int { return slices.Compare(settlements[a].ID[:], settlements[b].ID[:]) })
	}
	return parts
}

func (s *Store) settlePart(ctx context.Context, settlements []intents.Settlement, part []int, finished []uuid.UUID, results []intents.Settled) error {
	var written []settledRow
	err := s.do(ctx, "settle", func(ctx context.Context, c *pgx.Conn) (err error) {
		batch := &pgx.Batch{} // one round trip, one transaction
		batch.Queue(settleSQL, settleColumns(settlements, part, time.Now())...)
		if len(finished) > 0 {
			batch.Queue(finishBatchesSQL, finished)
		}
		sent := c.SendBatch(ctx, batch)
		rows, _ := sent.Query()
		written, err = pgx.CollectRows(rows, scanSettled)
		if closeErr := sent.Close(); err == nil {
			err = closeErr // the commit
		}
		return err
	})
	if err != nil {
		return err
	}
	done := make([]bool, len(part))
	for _, w := range written {
		i := part[w.n-1]
		results[i], done[w.n-1] = intents.Settled{ID: settlements[i].ID, State: w.state}, true
	}
	var left []int
	for j, i := range part {
		if !done[j] {
			left = append(left, i)
		}
	}
	return s.settledBefore(ctx, settlements, left, results)
}

type settledRow struct {
	n     int
	state intents.State
}

func scanSettled(row pgx.CollectableRow) (r settledRow, err error) {
	err = row.Scan(&r.n, &r.state)
	return r, err
}

// settledBefore answers settlements that changed nothing: written by an earlier try, fenced, or of no intent at all.
func (s *Store) settledBefore(ctx context.Context, settlements []intents.Settlement, left []int, results []intents.Settled) error {
	if len(left) == 0 {
		return nil
	}
	n := len(left)
	ids, generations, owners, tried := make([]uuid.UUID, n), make([]int32, n), make([]string, n), make([]bool, n)
	for j, i := range left {
		ids[j], generations[j], owners[j], tried[j] = settlements[i].ID, settlements[i].Generation, settlements[i].Owner, !settlements[i].NoAttempt
	}
	return s.do(ctx, "look into settlements", func(ctx context.Context, c *pgx.Conn) error {
		rows, _ := c.Query(ctx, settledBeforeSQL, ids, generations, owners, tried)
		var at int
		var present, written *string
		_, err := pgx.ForEachRow(rows, []any{&at, &present, &written}, func() error {
			i := left[at-1]
			switch {
			case present == nil:
				results[i] = intents.Settled{ID: ids[at-1], Fenced: true, Missing: true}
			case written != nil:
				results[i] = intents.Settled{ID: ids[at-1], State: stateOf(written)}
			default:
				results[i] = intents.Settled{ID: ids[at-1], State: stateOf(present), Fenced: true}
			}
			return nil
		})
		return err
	})
}

// settleColumns lays a part out as settle.sql wants it: one array a column. now is when it is asked, by the local clock.
func settleColumns(settlements []intents.Settlement, part []int, now time.Time) []any {
	n := len(part)
	ids, generations, owners, to := make([]uuid.UUID, n), make([]int32, n), make([]string, n), make([]string, n)
	delays, counted, doubts, duplicates := make([]time.Duration, n), make([]bool, n), make([]bool, n), make([]bool, n)
	codes, messages, providerIDs, dead := make([]string, n), make([]string, n), make([]string, n), make([]bool, n)
	tried, outcomes, phases := make([]bool, n), make([]string, n), make([]string, n)
	outCodes, outMessages, outIDs := make([]string, n), make([]string, n), make([]string, n)
	took, ago := make([]time.Duration, n), make([]time.Duration, n)
	for j, i := range part {
		st := &settlements[i]
		t, o := &st.Transition, &st.Outcome
		ids[j], generations[j], owners[j], to[j] = st.ID, st.Generation, st.Owner, string(t.To())
		delays[j], counted[j], doubts[j], duplicates[j] = t.Delay(), t.Counted(), t.Doubt(), t.PossibleDuplicate()
		codes[j], messages[j], providerIDs[j], dead[j] = clean(t.Code()), clean(t.Message()), clean(t.ProviderID()), t.DeadRecipient()
		tried[j], outcomes[j], phases[j] = !st.NoAttempt, o.Result().String(), string(o.Phase())
		outCodes[j], outMessages[j], outIDs[j], took[j] = clean(o.Code()), clean(o.Message()), clean(o.ProviderID()), st.Took
		if !st.Ended.IsZero() {
			ago[j] = max(0, now.Sub(st.Ended))
		}
	}
	return []any{
		ids, generations, owners, to, delays, counted, doubts, duplicates, codes, messages, providerIDs, dead,
		tried, outcomes, phases, outCodes, outMessages, outIDs, took, ago,
	}
}
