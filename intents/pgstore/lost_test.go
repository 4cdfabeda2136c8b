package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

// wired is a bench whose store is reached through a wire that can lose a request or a reply.
func wired(t *testing.T) (*bench, *pgtest.Wire) {
	t.Helper()
	url := pgtest.New(t)
	w := pgtest.Proxy(t, url)
	b := benchAt(t, w.URL(), pgstore.Options{MaxConns: 2})
	b.url, b.db = url, pool(t, b.ctx, url) // the test itself goes another way
	return b, w
}

// lossy runs test with each fault of a pair, at the statement and, where there is a transaction, at its commit. Once the store tries again
// by itself; once its own tries fail too, and the caller calls again.
func lossy(t *testing.T, marker string, transaction bool, test func(t *testing.T, b *bench, lose func(call func() error))) {
	type loss struct {
		fault  pgtest.Fault
		commit bool
	}
	losses := map[string]loss{"request": {pgtest.LoseRequest, false}, "reply": {pgtest.LoseReply, false}}
	if transaction {
		losses["commit's request"], losses["commit's reply"] = loss{pgtest.LoseRequest, true}, loss{pgtest.LoseReply, true}
	}
	for name, l := range losses {
		for _, down := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", tried again", true: ", called again"}[down], func(t *testing.T) {
				t.Parallel()
				b, w := wired(t)
				test(t, b, func(call func() error) {
					t.Helper()
					hit := w.Arm(l.fault, marker)
					if l.commit {
						hit = w.ArmAfter(l.fault, "commit", marker)
					}
					if down {
						go func() { <-hit.Done(); w.Refuse(true) }()
						_ = call() // fails, unless its next try is faster than Refuse; either way it is called again
						<-hit.Done()
						w.Refuse(false)
					}
					if err := call(); err != nil {
						t.Error(err)
					}
					hit.Wait(t)
				})
				b.holds()
			})
		}
	}
}

func TestLostAdmission(t *testing.T) {
	lossy(t, "-- admit:", false, func(t *testing.T, b *bench, lose func(func() error)) {
		batch := batchOf(ask("a:1", 0, now), ask("a:2", 0), ask("a:2", 0), ask("a:1", 0, text("other")))
		var vs []intents.Verdict
		lose(func() (err error) { vs, err = b.Admit(b.ctx, batch); return err })
		for i, want := range []intents.VerdictKind{intents.Accepted, intents.Accepted, intents.Duplicate, intents.Conflict} {
			if vs[i].Kind != want {
				t.Errorf("verdict %d: %+v, want %s", i, vs[i], want)
			}
		}
		c := vs[0].Claim
		if c == nil || c.Generation != 1 || string(c.Rendered) != "rendered a:1" || c.Batch != batch.Batch || c.FirstUsedAt.IsZero() {
			t.Fatalf("the claim: %+v", c)
		}
		out, err := b.Settle(b.ctx, []intents.Settlement{succeeded(*c, me)}, []uuid.UUID{batch.Batch})
		if err != nil || out[0].Fenced {
			t.Errorf("%+v %v", out, err)
		}
		if n := one[int](b, `select count(*) from claim_batches`); n != 0 {
			t.Errorf("%d claim batches left", n)
		}
		if n := one[int](b, `select count(*) from intents`); n != 2 {
			t.Errorf("%d intents, want 2", n)
		}
	})
}

func TestLostRevision(t *testing.T) {
	lossy(t, "-- revise:", true, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("r:1", 0))
		batch := batchOf(ask("r:1", 1))
		var vs []intents.Verdict
		lose(func() (err error) { vs, err = b.Admit(b.ctx, batch); return err })
		if vs[0].Kind != intents.Accepted || vs[0].Intent != b.wantState("r:1", 1, intents.Pending).ID {
			t.Errorf("%+v", vs[0])
		}
		b.wantState("r:1", 0, intents.SupersededState)
		if n := one[int](b, `select count(*) from changes`); n != 1 {
			t.Errorf("%d changes on record, want 1", n)
		}
	})
}

func TestLostClaim(t *testing.T) {
	lossy(t, "-- claim:", false, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("c:1", 0), ask("c:2", 0), ask("c:3", 0))
		w := wish("mail", me, 2)
		var cs []intents.Claim
		lose(func() (err error) { cs, err = b.Claim(b.ctx, w); return err })
		if len(cs) != 2 || cs[0].Generation != 1 || cs[1].Generation != 1 {
			t.Errorf("claims: %+v", cs)
		}
		if n := one[int](b, `select count(*) from intents where state = 'sending'`); n != 2 {
			t.Errorf("%d on the wire, want 2", n)
		}
	})
}

func TestLostSettlement(t *testing.T) {
	lossy(t, "-- settle:", false, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("s:1", 0), ask("s:2", 0), ask("s:3", 0))
		cs := b.claim(me, 3)
		all := []intents.Settlement{succeeded(cs[0], me), notSent(cs[1], me, time.Minute), handBack(cs[2], me)}
		var out []intents.Settled
		lose(func() (err error) { out, err = b.Settle(b.ctx, all, nil); return err })
		for i, want := range []intents.State{intents.Succeeded, intents.Pending, intents.Pending} {
			if out[i].Fenced || out[i].State != want {
				t.Errorf("settlement %d: %+v", i, out[i])
			}
		}
		if n := one[int](b, `select count(*) from attempts`); n != 2 {
			t.Errorf("%d attempts on record, want 2", n)
		}
		if i := b.find(string(cs[1].Identity.Key), 0); i.Attempts != 1 {
			t.Errorf("counted %d times", i.Attempts)
		}
	})
}

func TestLostTakeover(t *testing.T) {
	lossy(t, "-- take_over:", true, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("t:1", 0), ask("t:2", 0, now))
		b.claim(me, 1)
		b.pass(intenttest.Lease)
		var cs []intents.Claim
		lose(func() (err error) { cs, err = b.TakeOver(b.ctx, []string{"mail"}, them, time.Minute, 10); return err })
		if len(cs) != 2 {
			t.Fatalf("%d taken over, want 2", len(cs))
		}
		for _, c := range cs {
			if c.Generation != 2 || c.Takeovers != 1 {
				t.Errorf("taken over: %+v", c)
			}
			b.settle(leaseOver(c, them, true))
		}
	})
}

func TestLostCancel(t *testing.T) {
	lossy(t, "-- cancel:", true, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("c:1", 0))
		var done bool
		lose(func() (err error) { _, _, done, err = b.Cancel(b.ctx, ask("c:1", 0).Identity, "shop"); return err })
		if b.wantState("c:1", 0, intents.Cancelled); !done {
			t.Error("not recognised as cancelled")
		}
	})
}

func TestLostEvidence(t *testing.T) {
	lossy(t, "-- evidence:", true, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("e:1", 0))
		c := b.claimOne(me)
		b.pass(intenttest.Lease)
		b.settle(leaseOver(b.takeOver(them)[0], them, true))
		var got intents.Settled
		lose(func() (err error) { got, err = b.Witness(b.ctx, succeeded(c, me)); return err })
		if got.Fenced || got.State != intents.Succeeded {
			t.Errorf("%+v", got)
		}
		if n := one[int](b, `select count(*) from evidence`); n != 1 {
			t.Errorf("heard %d times", n)
		}
	})
}

func TestLostSweep(t *testing.T) {
	lossy(t, "-- sweep:", true, func(t *testing.T, b *bench, lose func(func() error)) {
		b.admit(ask("x:1", 0, intenttest.ExpiresIn(-time.Second)))
		lose(func() error { _, err := b.Sweep(b.ctx, 10); return err })
		b.wantState("x:1", 0, intents.Expired)
	})
}

func TestLostRefusal(t *testing.T) {
	lossy(t, "-- refuse:", false, func(t *testing.T, b *bench, lose func(func() error)) {
		r := intents.Refusal{ID: uuid.New(), Verdict: intents.Conflict, Code: "conflict", Caller: "shop", Channel: "mail", Key: "k:\x00\xff", Fields: []string{"content", "recipient"}}
		lose(func() error { return b.Refuse(b.ctx, []intents.Refusal{r}) })
		if n := one[int](b, `select count(*) from refusals where fields = '{content,recipient}'`); n != 1 {
			t.Errorf("stored %d times", n)
		}
	})
}

// A black hole, not a cut: the caller's end holds, and the other connection goes on.
func TestNoReplyAtAll(t *testing.T) {
	b, w := wired(t)
	hit := w.Arm(pgtest.HoldReply, "-- admit:")
	defer hit.Release() // the pool waits, on closing, for a connection that it has given up
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	batch := batchOf(ask("h:1", 0))
	given := make(chan error, 1)
	go func() {
		_, err := b.Admit(ctx, batch)
		given <- err
	}()
	hit.Wait(t)
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) { // the store's own bound gives up, too, but later
		t.Errorf("got %v, want it to end with its caller", err)
	}
	if v := b.admitBatch(batch)[0]; v.Kind != intents.Accepted {
		t.Errorf("%+v", v)
	}
}

// A provider's text that PostgreSQL cannot hold must not cost the settlement.
func TestUnstorableOutcomeIsSettled(t *testing.T) {
	b := newBench(t)
	b.admit(ask("u:1", 0))
	c := b.claimOne(me)
	o := channels.OutcomeRefused("5\x0050", "no\x00body \xc3\x28")
	st := intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: me, Transition: intents.Reject(o), Outcome: o}
	if out := b.settle(st); out[0].State != intents.Rejected {
		t.Errorf("%+v", out)
	}
}
