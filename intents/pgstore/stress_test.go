package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// wireLog is what really happened at the provider: which generations of an intent tried, and how many tries were applied.
type wireLog struct {
	mu      sync.Mutex
	tried   map[uuid.UUID]map[int32]bool
	applied map[uuid.UUID]int
}

func (w *wireLog) send(c intents.Claim, applied bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tried[c.ID] == nil {
		w.tried[c.ID] = map[int32]bool{}
	}
	w.tried[c.ID][c.Generation] = true
	if applied {
		w.applied[c.ID]++
	}
}

// TestManyWorkersDieAndAreTakenOver: workers of a channel where a repeat would be seen claim, send, die before and after sending, and
// come late, while leases run out under them and their connections are cut. In the end every effect is on record, and none
// happened twice.
func TestManyWorkersDieAndAreTakenOver(t *testing.T) {
	b := newBench(t)
	w := &wireLog{tried: map[uuid.UUID]map[int32]bool{}, applied: map[uuid.UUID]int{}}
	quit := time.Now().Add(5 * time.Second)
	var all sync.WaitGroup
	for n := range 3 {
		owner := fmt.Sprintf("host-%d/1", n)
		all.Go(func() {
			for i := 0; time.Now().Before(quit); i++ {
				b.life(w, owner, fmt.Sprintf("s:%d-%d", n, i))
			}
		})
		all.Go(func() {
			for time.Now().Before(quit) {
				b.patrol(owner)
			}
		})
	}
	for n := 0; time.Now().Before(quit); n++ {
		for want := one[int](b, `select count(*) from keys`) + 3; one[int](b, `select count(*) from keys, pg_sleep(0.005)`) < want && time.Now().Before(quit); {
			continue
		}
		b.pass(intenttest.Lease)
		if n%3 == 0 {
			b.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name <> $1`, bystander)
		}
	}
	all.Wait()
	b.pass(intenttest.Lease)
	b.patrol("host-0/1")
	b.compareWith(w)
	t.Logf("%d intents, %d taken over, %d unknown, %d witnesses", len(w.tried), one[int](b, `select coalesce(sum(takeovers), 0) from intents`),
		one[int](b, `select count(*) from intents where state = 'unknown'`), one[int](b, `select count(*) from evidence`))
}

// insist calls again until it succeeds.
func (b *bench) insist(call func() error) {
	for call() != nil && b.ctx.Err() == nil {
		continue
	}
}

// life admits two intents, one of them to be claimed at once, and works on what it gets.
func (b *bench) life(w *wireLog, owner, key string) {
	batch := batchOf(ask(key, 0), ask(key+"-n", 0, now))
	batch.Owner = owner
	var vs []intents.Verdict
	b.insist(func() (err error) { vs, err = b.Admit(b.ctx, batch); return err })
	wish := wish("mail", owner, 2)
	var cs []intents.Claim
	b.insist(func() (err error) { cs, err = b.Claim(b.ctx, wish); return err })
	for _, v := range vs {
		if v.Claim != nil {
			cs = append(cs, *v.Claim)
		}
	}
	for _, c := range cs {
		b.attempt(w, owner, c)
	}
}

// attempt tries a claim once and tells the store, or dies.
func (b *bench) attempt(w *wireLog, owner string, c intents.Claim) {
	var st intents.Settlement
	switch rand.N(10) {
	case 0: // dies before the effect
		return
	case 1: // dies after it
		w.send(c, true)
		return
	case 2:
		w.send(c, rand.N(2) == 0)
		st = parked(c, owner)
	case 3, 4:
		w.send(c, false)
		st = notSent(c, owner, 0)
	case 5:
		st = handBack(c, owner)
	default:
		w.send(c, true)
		st = succeeded(c, owner)
	}
	var out []intents.Settled
	b.insist(func() (err error) { out, err = b.Settle(b.ctx, []intents.Settlement{st}, nil); return err })
	if out[0].Fenced && !st.NoAttempt {
		b.insist(func() error { _, err := b.Witness(b.ctx, st); return err })
	}
}

// patrol takes over what is over and parks it: a repeat would be seen.
func (b *bench) patrol(owner string) {
	var cs []intents.Claim
	b.insist(func() (err error) {
		cs, err = b.TakeOver(b.ctx, []string{"mail"}, owner, intenttest.Lease, 100)
		return err
	})
	for _, c := range cs {
		b.insist(func() error {
			_, err := b.Settle(b.ctx, []intents.Settlement{leaseOver(c, owner, true)}, nil)
			return err
		})
	}
}

func (b *bench) compareWith(w *wireLog) {
	b.t.Helper()
	if n := one[int](b, `select count(*) from intents where state = 'sending'`); n != 0 {
		b.t.Errorf("%d intents are still on the wire", n)
	}
	effects := 0
	for id, generations := range w.tried {
		effects += len(generations)
		for g := range generations {
			if n := one[int](b, `select count(*) from attempts where intent_id = $1 and generation = $2`, id, g); n != 1 {
				b.t.Errorf("attempt %d of %v is on record %d times", g, id, n)
			}
		}
		if n := w.applied[id]; n > 1 {
			b.t.Errorf("%v was applied %d times", id, n)
		}
	}
	if n := one[int](b, `select count(*) from attempts where code <> 'lease-over'`); n > effects {
		b.t.Errorf("%d attempts on record, %d effects", n, effects)
	}
	for id := range w.applied {
		if s := one[string](b, `select state from intents where id = $1`, id); s == "pending" {
			b.t.Errorf("%v was applied and waits to be sent again", id)
		}
	}
	b.holds()
}
