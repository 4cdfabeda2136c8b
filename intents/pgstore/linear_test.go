package pgstore_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// Sizes of a history. Deciding is exponential in the calls of one key that overlap, and a lost one overlaps everything after it.
const (
	linearRounds  = 12
	linearWorkers = 5
	linearKeys    = 6
	linearSteps   = 22
	linearLost    = 5 // calls of a round that reach for every key and may be cut off
)

// TestHistoriesAreLinearizable: several callers of one store admit, claim, settle, take over, cancel and read the same few facts at
// once. Some of their calls are cut off at any moment: they call again, or never learn what happened. Whatever all of them were told fits an
// order in which one call came after the other, key by key, on the model.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	calls := map[string]int{}
	for round := range linearRounds {
		r := &recorder{b: b, t: t, began: time.Now(), channel: fmt.Sprint("round-", round), mayLose: linearLost}
		var all sync.WaitGroup
		for n := range linearWorkers {
			w := &worker{recorder: r, number: n, owner: fmt.Sprintf("host-%d/1", n), proposed: map[proposal]bool{}}
			all.Go(func() {
				for range linearSteps {
					w.step()
				}
			})
		}
		all.Wait()
		for k := range linearKeys {
			for revision := range int32(2) {
				(&worker{recorder: r, number: linearWorkers, owner: me}).read(key(k), revision)
			}
		}
		linearizable(t, r.history)
		r.count(calls)
	}
	b.holds()
	t.Logf("%d histories: %v", linearRounds, calls)
}

// count adds what happened in a history, so that a test that reaches little shows.
func (r *recorder) count(calls map[string]int) {
	for _, op := range r.history {
		what, o := op.Input.(request).what, op.Output.(reply)
		switch {
		case o.lost:
			calls["lost "+what]++
		case o.settled.Fenced:
			calls["fenced "+what]++
		default:
			calls[what]++
		}
	}
}

func linearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	model := sequential()
	result, info := porcupine.CheckOperationsVerbose(model, history, patience)
	if result == porcupine.Ok {
		return
	}
	for _, part := range byKey(history) {
		if porcupine.CheckOperationsTimeout(model, part, patience) == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, op := range part {
			t.Logf("%7.2f – %7.2f ms  %s", float64(op.Call)/1e6, float64(op.Return)/1e6, describe(op.Input.(request), op.Output.(reply)))
		}
	}
	drawing := filepath.Join(os.TempDir(), "onebell-history.html")
	if err := porcupine.VisualizePath(model, info, drawing); err != nil {
		t.Log(err)
	}
	t.Fatalf("the history above is not linearizable (%s); drawn in %s", result, drawing)
}

// recorder keeps what the callers of one round were told.
type recorder struct {
	b       *bench
	t       *testing.T
	began   time.Time
	channel string

	mu      sync.Mutex
	history []porcupine.Operation
	mayLose int
}

func key(n int) dedup.Key { return dedup.Key(fmt.Sprint("k:", n)) }

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

func (r *recorder) note(client int, called int64, a request, o reply) {
	returned := r.now()
	if o.lost {
		returned = math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: client, Input: a, Output: o, Call: called, Return: returned})
}

// everyKey notes a call whose reply was lost: it may have reached any key.
func (r *recorder) everyKey(client int, called int64, a request) {
	for k := range linearKeys {
		a.key = key(k)
		r.note(client, called, a, reply{lost: true})
	}
}

func (r *recorder) maySpend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mayLose--
	return r.mayLose >= 0
}

// once makes a call of the store, which may be cut off at any moment; false if its caller was told nothing.
func (r *recorder) once(cut bool, do func(ctx context.Context) error) (answered bool) {
	ctx, cancel := context.WithCancel(r.b.ctx)
	defer cancel()
	if cut {
		defer time.AfterFunc(rand.N(4*time.Millisecond), cancel).Stop()
	}
	err := do(ctx)
	if err != nil && ctx.Err() == nil {
		r.t.Errorf("a call that was not cut off failed: %v", err)
	}
	return err == nil
}

// insist calls again after it was cut off; where mayLose says so it sometimes gives up.
func (r *recorder) insist(mayLose bool, do func(ctx context.Context) error) (tries int, answered bool) {
	for tries = 1; !r.t.Failed(); tries++ {
		if r.once(rand.N(6) == 0, do) {
			return tries, true
		}
		if mayLose && rand.N(3) == 0 {
			break
		}
	}
	return tries, false
}

// worker is one caller: an owner of claims, and a producer.
type worker struct {
	*recorder
	number   int
	owner    string
	claims   []holding
	proposed map[proposal]bool
}

// holding is a claim that a worker has, or believes to have.
type holding struct {
	claim     intents.Claim
	takenOver bool // it will only be settled
}

func (h holding) name() proposal { return proposal{h.claim.ID, h.claim.Generation} }

// proposal names a claim for which its owner proposed a settlement: it proposes no other.
type proposal struct {
	id         uuid.UUID
	generation int32
}

func (w *worker) step() {
	switch n := rand.N(100); {
	case n < 25:
		w.admit()
	case n < 32:
		w.read(key(rand.N(linearKeys)), rand.Int32N(2))
	case n < 38:
		w.cancel()
	case n < 60:
		w.claim()
	case n < 70:
		w.takeOver()
	case n < 73:
		w.pass()
	default:
		w.settle()
	}
}

func (w *worker) ask(k dedup.Key, revision int32, how ...func(*intents.Admission)) intents.Admission {
	return ask(string(k), revision, append(how, intenttest.On(w.channel))...)
}

func (w *worker) admit() {
	how := []func(*intents.Admission){text([]string{"a", "a", "b"}[rand.N(3)])}
	if rand.N(2) == 0 {
		how = append(how, now)
	}
	k, revision := key(rand.N(linearKeys)), int32(max(0, rand.N(4)-2))
	batch := batchOf(w.ask(k, revision, how...))
	batch.Owner = w.owner
	called := w.now()
	var vs []intents.Verdict
	tries, answered := w.insist(true, func(ctx context.Context) (err error) { vs, err = w.b.Admit(ctx, batch); return err })
	o := reply{lost: !answered, tries: tries}
	if answered {
		o.verdict = vs[0]
		if vs[0].Claim != nil {
			w.claims = append(w.claims, holding{claim: *vs[0].Claim})
		}
	}
	w.note(w.number, called, request{what: "admit", key: k, revision: revision, owner: w.owner, admission: batch.Admissions[0]}, o)
}

func (w *worker) read(k dedup.Key, revision int32) {
	called := w.now()
	var o reply
	_, answered := w.insist(false, func(ctx context.Context) (err error) {
		o.intent, o.found, err = w.b.FindByIdentity(ctx, w.ask(k, revision).Identity)
		return err
	})
	if answered {
		w.note(w.number, called, request{what: "read", key: k, revision: revision, owner: w.owner}, o)
	}
}

func (w *worker) cancel() {
	k, revision := key(rand.N(linearKeys)), rand.Int32N(2)
	called := w.now()
	var o reply
	_, answered := w.insist(true, func(ctx context.Context) (err error) {
		o.intent, o.found, o.cancelled, err = w.b.Cancel(ctx, w.ask(k, revision).Identity, "shop")
		return err
	})
	o.lost = !answered
	w.note(w.number, called, request{what: "cancel", key: k, revision: revision, owner: w.owner}, o)
}

// claim wishes for some claims. A wish that was cut off is request for again under its token, or given up for good.
func (w *worker) claim() {
	req := wish(w.channel, w.owner, 1+rand.N(2))
	w.reach(request{what: "claim", owner: w.owner}, func(ctx context.Context) ([]intents.Claim, error) { return w.b.Claim(ctx, req) })
}

func (w *worker) takeOver() {
	w.reach(request{what: "take over", owner: w.owner}, func(ctx context.Context) ([]intents.Claim, error) {
		return w.b.TakeOver(ctx, []string{w.channel}, w.owner, intenttest.Lease, 10)
	})
}

// reach makes a call that may give claims of any keys. Each try is noted by itself.
func (w *worker) reach(a request, do func(ctx context.Context) ([]intents.Claim, error)) {
	for ; ; a.again = true {
		called := w.now()
		var cs []intents.Claim
		if w.once(rand.N(5) == 0 && w.maySpend(), func(ctx context.Context) (err error) { cs, err = do(ctx); return err }) {
			w.granted(called, a, cs)
			return
		}
		w.everyKey(w.number, called, a)
		if rand.N(2) == 0 || w.t.Failed() {
			return
		}
	}
}

func (w *worker) granted(called int64, a request, cs []intents.Claim) {
	for _, c := range cs {
		a.key, a.revision = c.Identity.Key, c.Identity.Revision
		w.note(w.number, called, a, reply{claim: &c})
		name := proposal{c.ID, c.Generation}
		w.claims = slices.DeleteFunc(w.claims, func(h holding) bool { return h.name() == name })
		if !w.proposed[name] {
			w.claims = append(w.claims, holding{claim: c, takenOver: a.what == "take over"})
		}
	}
}

// pass lets the leases of all claims run out, in one transaction.
func (w *worker) pass() {
	const d = 2 * intenttest.Lease
	called := w.now()
	for w.passed(d) != nil && !w.t.Failed() {
		continue // a deadlock
	}
	for k := range linearKeys {
		w.note(w.number, called, request{what: "pass", key: key(k), owner: w.owner, time: d}, reply{})
	}
}

func (w *worker) passed(d time.Duration) error {
	return pgx.BeginFunc(w.b.ctx, w.b.db, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`update intents set lease_until = lease_until - $1::interval where channel = $2`,
			`update agenda set at = at - $1::interval where channel = $2`,
			`update claim_batches b set lease_until = lease_until - $1::interval where exists (select from intents i where i.id = any(b.intents) and i.channel = $2)`,
		} {
			if _, err := tx.Exec(w.b.ctx, sql, d, w.channel); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle proposes something for one of the claims, or forgets it as a crash does.
func (w *worker) settle() {
	if len(w.claims) == 0 {
		w.claim()
		return
	}
	n := rand.N(len(w.claims))
	h := w.claims[n]
	w.claims = slices.Delete(w.claims, n, n+1)
	if rand.N(7) == 0 {
		return
	}
	w.proposed[h.name()] = true
	st := w.settlement(h)
	out, answered := w.write("settle", h, st, func(ctx context.Context) (intents.Settled, error) {
		out, err := w.b.Settle(ctx, []intents.Settlement{st}, nil)
		if err != nil {
			return intents.Settled{}, err
		}
		return out[0], nil
	})
	if answered && out.Fenced && !h.takenOver {
		w.write("witness", h, st, func(ctx context.Context) (intents.Settled, error) { return w.b.Witness(ctx, st) })
	}
}

func (w *worker) settlement(h holding) intents.Settlement {
	if h.takenOver {
		return leaseOver(h.claim, w.owner, rand.N(2) == 0)
	}
	settle := []func(intents.Claim, string) intents.Settlement{
		succeeded, succeeded, intenttest.Rejected, resent, parked, intenttest.Exhausted,
		func(c intents.Claim, owner string) intents.Settlement { return notSent(c, owner, 0) },
		func(c intents.Claim, owner string) intents.Settlement {
			st := handBack(c, owner)
			st.Outcome = channels.OutcomeNotSent(channels.PhaseNone, "handed-back", "it was not begun")
			return st
		},
	}
	return settle[rand.N(len(settle))](h.claim, w.owner)
}

func (w *worker) write(what string, h holding, st intents.Settlement, do func(ctx context.Context) (intents.Settled, error)) (intents.Settled, bool) {
	called := w.now()
	var o reply
	_, answered := w.insist(true, func(ctx context.Context) (err error) { o.settled, err = do(ctx); return err })
	o.lost = !answered
	id := h.claim.Identity
	w.note(w.number, called, request{what: what, key: id.Key, revision: id.Revision, owner: w.owner, settlement: st}, o)
	return o.settled, answered
}
