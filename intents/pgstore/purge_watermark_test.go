package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onebell/onebell/intents"
)

func TestWatermarkNeverMovesBack(t *testing.T) {
	b := newBench(t)
	if w, err := b.Watermark(b.ctx); err != nil || !w.At.IsZero() || w.Now.IsZero() {
		t.Errorf("never moved: %+v, %v", w, err)
	}
	first := b.move(4 * day)
	if d := first.Now.Sub(first.At); d != 4*day {
		t.Errorf("it is %v behind the clock", d)
	}
	if w := b.move(9 * day); !w.At.Equal(first.At) {
		t.Errorf("with a longer window it moved from %v to %v", first.At, w.At)
	}
	for _, keep := range []time.Duration{0, -time.Hour} { // ahead of the clock, everything would be refused for good
		if _, moved, err := b.MoveWatermark(b.ctx, keep, patience); err == nil || moved {
			t.Errorf("it moved %v behind the clock", keep)
		}
	}
	if w, err := b.Watermark(b.ctx); err != nil || !w.At.Equal(first.At) {
		t.Errorf("%+v, %v", w, err)
	}
}

// A move waits for admissions under way, as long as it has patience; and then nothing has happened.
func TestD3MoveWaitsForAdmissionsUnderWay(t *testing.T) {
	b := newBench(t)
	read, err := statements.ReadFile("queries/watermark_share.sql")
	if err != nil {
		t.Fatal(err)
	}
	end := b.hold(string(read), time.Now())
	if _, moved, err := b.MoveWatermark(b.ctx, day, 50*time.Millisecond); moved || err != nil {
		t.Fatalf("moved %v, %v", moved, err)
	}
	if w, err := b.Watermark(b.ctx); err != nil || !w.At.IsZero() {
		t.Errorf("%+v, %v", w, err)
	}
	moved := make(chan intents.Watermark, 1)
	go func() { moved <- b.move(day) }()
	b.waiting(1)
	select {
	case w := <-moved:
		t.Errorf("it moved to %v", w.At)
	default:
	}
	end("commit")
	if w := <-moved; w.At.IsZero() {
		t.Error("it did not move")
	}
}

// An admission that comes while the watermark is being moved stands behind the move, and is judged by where the watermark is then.
func TestD3AdmissionsStandBehindAMove(t *testing.T) {
	b := newBench(t)
	b.admit(ask("d:known", 0))
	read, err := statements.ReadFile("queries/watermark_line.sql")
	if err != nil {
		t.Fatal(err)
	}
	end := b.hold(string(read))
	fresh, revision := b.admission(ask("d:new", 0, ago(2*day))), b.admission(ask("d:known", 1, ago(2*day)))
	b.waiting(2)
	b.exec(`select 1`) // nobody else waits
	if v := b.find("d:known", 0); v.State != intents.Pending {
		t.Errorf("readers wait, too: %+v", v)
	}
	end(`update watermark set acked_to = now() - interval '1 day'; commit`)
	for _, got := range []<-chan []intents.Verdict{fresh, revision} {
		if v := (<-got)[0]; v.Kind != intents.Stale {
			t.Errorf("%+v", v)
		}
	}
	b.holds()
}

// Under admissions that overlap without a gap a move comes to its turn all the same: it stands in line with them. Each of them ends when
// a later one holds the watermark, too, as under a steady load; or after a while, when the later ones stand in line themselves.
func TestD3MoveDoesNotStarve(t *testing.T) {
	const sessions, tries = 3, 6
	b := newBench(t)
	ctx, stop := context.WithCancel(b.ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var begun atomic.Int64
	for range sessions {
		conn, err := b.db.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer conn.Release()
			for ctx.Err() == nil {
				overlapped(ctx, conn, &begun)
			}
		})
	}
	for deadline := time.Now().Add(patience); begun.Load() < 10*sessions; b.exec(`select pg_sleep(0.01)`) {
		if time.Now().After(deadline) {
			t.Fatal("there is no load")
		}
	}
	for try := range 3 * tries { // three rounds of a purger's
		_, moved, err := b.MoveWatermark(b.ctx, day, 50*time.Millisecond<<(try%tries))
		if err != nil {
			t.Fatal(err)
		}
		if moved {
			t.Logf("moved with try %d", try+1)
			return
		}
	}
	t.Errorf("it did not move in %d tries", 3*tries)
}

// overlapped holds the watermark as an admission does, until another one that began later does, too.
func overlapped(ctx context.Context, conn *pgxpool.Conn, begun *atomic.Int64) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `select acked_to from watermark where id = 1 for share`); err != nil {
		return
	}
	mine := begun.Add(1)
	for end := time.Now().Add(200 * time.Millisecond); begun.Load() == mine && time.Now().Before(end) && ctx.Err() == nil; {
		_, _ = tx.Exec(ctx, `select pg_sleep(0.002)`)
	}
}

// While keys are purged, newer revisions of their facts come in: a key whose revision is young stays, whichever of the two comes first.
func TestD3RevisionsWhileTheirKeysArePurged(t *testing.T) {
	const facts, part = 240, 40
	b := newBench(t)
	old := ago(10 * day)
	name := func(i int) string { return fmt.Sprintf("r:%d", i) }
	var as []intents.Admission
	for i := range facts {
		as = append(as, ask(name(i), 0, old))
	}
	b.admit(as...)
	for _, c := range b.claim(me, facts) {
		b.settle(succeeded(c, me))
	}
	b.move(4 * day)
	var forgotten atomic.Int64
	for from := 0; from < facts; from += part {
		var revisions []intents.Admission
		for i := from; i < from+part; i++ {
			revisions = append(revisions, ask(name(i), 1))
		}
		var page []intents.PurgeMark
		for _, a := range as[from : from+part] {
			page = append(page, intents.PurgeMark{ID: a.Identity.Fact()})
		}
		together(func() {
			vs, err := b.Admit(b.ctx, batchOf(revisions...))
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range vs {
				if v.Kind != intents.Accepted {
					t.Errorf("revision %d: %+v", from+i, v)
				}
			}
		}, func() {
			for i := range page { // one by one, as the revisions come in
				n, err := b.Purge(b.ctx, intents.PurgeKeys, 4*day, page[i:i+1])
				if err != nil {
					t.Error(err)
				}
				forgotten.Add(int64(n))
			}
		})
		for i, v := range b.admit(again(revisions)...) {
			if v.Kind != intents.Duplicate {
				t.Errorf("the young revision of fact %d again: %+v", from+i, v)
			}
		}
		for i, v := range b.admit(again(as[from : from+part])...) {
			if v.Kind == intents.Accepted {
				t.Errorf("the old revision of fact %d is new: %+v", from+i, v)
			}
		}
	}
	t.Logf("%d of %d facts were forgotten before their revision came", forgotten.Load(), facts)
}

// again is the same requests, published again.
func again(as []intents.Admission) (out []intents.Admission) {
	for _, a := range as {
		a.Token = uuid.Must(uuid.NewV7())
		out = append(out, a)
	}
	return out
}
