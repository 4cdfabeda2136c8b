package pgstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// What providers wrote goes, too: they name people in words of their own.
func TestErasureStrikesWhatProvidersWrote(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.admit(ask("w:refused", 0, toCanary), ask("w:late", 0, toCanary))
	for _, c := range b.claim(me, 10) {
		o := channels.OutcomeRefused("550", "there is no "+canary)
		if string(c.Identity.Key) == "w:refused" {
			b.settle(intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: me, Transition: intents.Reject(o), Outcome: o})
			continue
		}
		b.settle(parked(c, me))
		if _, err := b.Witness(b.ctx, intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: me, Outcome: o}); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](b, `select (select count(*) from attempts where strpos(message, $1) > 0) + (select count(*) from intents where strpos(message, $1) > 0)`, canary); n < 2 {
		t.Fatalf("the canary stands in %d messages", n)
	}
	b.admit(ask("w:refused", 0, toCanary, text("something else"))) // a conflict: a refusal names members, never values
	if done := b.erase(intents.Erasure{}); done.Erased != 2 || len(done.Unknown) != 1 {
		t.Errorf("erased %+v", done)
	}
	b.mustForget()
	if r, _, err := b.GetRecord(b.ctx, b.find("w:refused", 0).ID); err != nil || r.Attempts[0].Code != "550" || r.Intent.State != intents.Rejected {
		t.Errorf("what happened is not on record any more: %+v, %v", r, err)
	}
}

// An UNKNOWN one may still be settled by evidence. Where that says that it was never sent, it is not sent now either.
func TestErasedIntentsAreNeverSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.admit(ask("n:there", 0, toCanary), ask("n:not-there", 0, toCanary))
	for _, c := range b.claim(me, 10) {
		b.settle(parked(c, me))
	}
	b.erase(intents.Erasure{})
	b.pass(time.Minute)
	for _, q := range b.unknowns(10) {
		if q.Recipient != "" || q.Rendered != nil {
			t.Errorf("a question holds what was forgotten: %+v", q)
		}
		b.lookedUp(q, map[bool]channels.Outcome{true: isThere, false: notThere}[q.ID == b.find("n:there", 0).ID], false)
	}
	b.wantState("n:there", 0, intents.Succeeded)
	b.wantState("n:not-there", 0, intents.Pending)
	c := b.claimOne(me)
	if !c.Forgotten || c.Recipient != "" || len(c.Rendered) != 0 {
		t.Errorf("claimed %+v", c)
	}
	now := time.Now()
	c.Trust = intents.NewTrust(now, intenttest.Lease, time.Second)
	instead, ok := intents.BeforeSend(intents.NewPolicy(channels.Contract{Guarantee: channels.DuplicateVisible}, channels.Settings{}), c, c.Now(now), now)
	if ok {
		t.Fatal("it may be sent")
	}
	b.settle(intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: me, Transition: instead, NoAttempt: true})
	b.wantState("n:not-there", 0, intents.Exhausted)
	b.holds()
}

// A settlement that is on its way is waited for, and what it made of the intent is what counts.
func TestErasureWaitsForASettlement(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.admit(ask("s:1", 0, toCanary))
	c := b.claimOne(me)
	holder, err := b.db.Begin(b.ctx) // keeps the settlement in its middle, when it has changed the intent already
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(b.ctx, `insert into attempts (intent_id, generation, owner, started_at, ended_at, result, phase, code, message, provider_id, state)
		values ($1, $2, '', now(), now(), '', '', '', '', '', '')`, c.ID, c.Generation); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	waiting := func(n int) {
		for limit := time.Now().Add(patience); one[int](b, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) < n; {
			if time.Now().After(limit) {
				t.Errorf("there are no %d that wait", n)
				return
			}
			one[int](b, `select 1 from pg_sleep(0.01)`)
		}
	}
	both.Go(func() {
		b.insist(func() error { _, err := b.Settle(b.ctx, []intents.Settlement{succeeded(c, me)}, nil); return err })
	})
	waiting(1)
	var done intents.Erased
	both.Go(func() {
		b.insist(func() (err error) {
			done, err = b.Erase(b.ctx, intents.Erasure{Act: byHand, Hashes: [][]byte{canaryHash}})
			return err
		})
	})
	waiting(2)
	if err := holder.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	both.Wait()
	if done.Erased != 1 || len(done.Left) != 0 {
		t.Errorf("erased %+v", done)
	}
	b.wantState("s:1", 0, intents.Succeeded)
	b.mustForget()
	b.holds()
}

// Requests are admitted, claimed and settled while their recipient is forgotten again and again. Nobody is given half an intent, nothing
// that was sent is called cancelled, and in the end one more run finds the rest.
func TestErasureAmongAdmissionsAndSends(t *testing.T) {
	t.Parallel()
	const n = 150
	b := newBench(t)
	sent := map[uuid.UUID]bool{}
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		for i := range n {
			b.insist(func() error { _, err := b.Admit(b.ctx, batchOf(ask(fmt.Sprintf("m:%d", i), 0, toCanary))); return err })
		}
	})
	running := func() bool {
		select {
		case <-done:
			return false
		default:
			return b.ctx.Err() == nil
		}
	}
	all.Go(func() {
		for running() {
			for _, c := range b.claim(me, 3) {
				if c.Forgotten || len(c.Rendered) == 0 || c.Recipient != canary {
					t.Errorf("half an intent was claimed: %+v", c)
				}
				sent[c.ID] = true
				b.settle(succeeded(c, me))
			}
		}
	})
	runs, cancelled := 0, map[uuid.UUID]bool{}
	for running() || runs == 0 {
		for _, id := range b.erase(intents.Erasure{CancelOpen: true}).Cancelled {
			cancelled[id] = true
		}
		runs++
	}
	all.Wait()
	for _, id := range b.erase(intents.Erasure{CancelOpen: true}).Cancelled {
		cancelled[id] = true
	}
	for id := range sent {
		if cancelled[id] {
			t.Errorf("%s was sent and is called cancelled", id)
		}
	}
	if len(sent)+len(cancelled) != n {
		t.Errorf("%d sent and %d cancelled of %d", len(sent), len(cancelled), n)
	}
	if got := one[int](b, `select count(*) from intents where state = 'succeeded'`); got != len(sent) {
		t.Errorf("%d succeeded, %d were sent", got, len(sent))
	}
	t.Logf("%d runs among %d sends and %d cancelled", runs, len(sent), len(cancelled))
	b.mustForget()
	b.holds()
}
