package pgstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

// together runs the functions at the same instant and waits for all.
func together(fs ...func()) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(func() { <-start; f() })
	}
	close(start)
	all.Wait()
}

func TestW1FiftyArriveAtOnce(t *testing.T) {
	b := newBench(t)
	verdicts := make([]intents.Verdict, 50)
	fs := make([]func(), 50)
	for i := range fs {
		fs[i] = func() {
			vs, err := b.Admit(b.ctx, batchOf(ask("w:1", 0)))
			if err != nil {
				t.Error(err)
				return
			}
			verdicts[i] = vs[0]
		}
	}
	together(fs...)
	count := map[intents.VerdictKind]int{}
	for _, v := range verdicts {
		count[v.Kind]++
		if v.Intent != verdicts[0].Intent {
			t.Errorf("two intents: %v and %v", v.Intent, verdicts[0].Intent)
		}
	}
	if count[intents.Accepted] != 1 || count[intents.Duplicate] != 49 {
		t.Errorf("%v, want 1 accepted and 49 duplicates", count)
	}
	b.holds()
}

// waiting polls until n sessions of the database wait for a lock.
func (b *bench) waiting(n int) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for one[int](b, `select count(*) from pg_sleep(0.005), pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) < n {
		if time.Now().After(deadline) {
			b.t.Fatal("nobody waits for the lock")
		}
	}
}

// admission starts an admission in the background.
func (b *bench) admission(as ...intents.Admission) <-chan []intents.Verdict {
	out := make(chan []intents.Verdict, 1)
	go func() {
		vs, err := b.Admit(b.ctx, batchOf(as...))
		if err != nil {
			b.t.Error(err)
		}
		out <- vs
	}()
	return out
}

// hold begins a transaction that holds what sql touches, until the returned end is called with "commit" or "rollback".
func (b *bench) hold(sql string, args ...any) (end func(how string)) {
	b.t.Helper()
	conn, err := pgx.Connect(b.ctx, b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close(b.ctx) })
	if _, err := conn.Exec(b.ctx, "begin"); err != nil {
		b.t.Fatal(err)
	}
	if _, err := conn.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatal(err)
	}
	return func(how string) {
		b.t.Helper()
		if _, err := conn.Exec(b.ctx, how); err != nil {
			b.t.Fatal(err)
		}
	}
}

// W1 by hand: the second insert begins before the first commits, so its snapshot cannot see what it waits for.
func TestW1SecondInsertBeginsBeforeTheFirstCommits(t *testing.T) {
	for _, how := range []string{"commit", "rollback"} {
		t.Run(how, func(t *testing.T) {
			b, other := newBench(t), ask("w:1", 0)
			fact := other.Identity.Fact()
			// The first session is the store's own statement, by way of a key that it can be held at: everything of one
			// admission, uncommitted.
			end := b.hold(`with k as (insert into keys values ($1, 0, '01a22e2d-55d6-705e-aa9a-1e93636d5d1a', 1, $2, $3) returning intent_id)
				insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, priority, effect_key, collapse_key,
					recipient_hash, traceparent, state, generation, updated_at, owner, key_scope)
				select intent_id, $1, 'shop', 'mail', 'w:1', 0, 'keyed', $3, now(), 1, '', '', '', '', 'rejected', 1, now(), '', '' from k`,
				fact[:], other.Fingerprint.Sum[:], other.Meaning.OccurredAt)
			same, different, bystander := ask("w:1", 0), ask("w:1", 0, text("other")), ask("w:2", 0)
			first, second := b.admission(same, bystander), b.admission(different)
			b.waiting(2)
			end(how)
			vs, conflict := <-first, (<-second)[0]
			if how == "commit" {
				if vs[0].Kind != intents.Duplicate || vs[0].State != intents.Rejected || conflict.Kind != intents.Conflict {
					t.Errorf("after the commit: %+v, %+v", vs[0], conflict)
				}
			} else if (vs[0].Kind == intents.Accepted) == (conflict.Kind == intents.Accepted) {
				t.Errorf("after the roll-back one of two must be accepted: %+v, %+v", vs[0], conflict)
			}
			if vs[1].Kind != intents.Accepted {
				t.Errorf("the bystander: %+v", vs[1])
			}
		})
	}
}

// Whoever supersedes may have to wait for somebody who is just changing the older one: what he sees then is not in his snapshot.
func TestSupersedeWaitsForTheOlderOne(t *testing.T) {
	for name, change := range map[string]struct{ from, sql, want string }{
		"while it is put back":      {"sending", `update intents set state = 'pending', owner = '', lease_until = null`, "superseded"},
		"while it is put in doubt":  {"sending", `update intents set state = 'pending', owner = '', lease_until = null, doubt = true`, "unknown"},
		"while it is claimed":       {"pending", `update intents set state = 'sending', generation = generation + 1, owner = 'x', lease_until = now()`, "sending"},
		"while it succeeds":         {"sending", `update intents set state = 'succeeded', owner = '', lease_until = null`, "succeeded"},
		"while it is redriven":      {"exhausted", `update intents set state = 'pending'`, "superseded"},
		"while somebody looks on":   {"pending", `select from intents for update`, "superseded"},
		"while it is handed around": {"sending", `update intents set generation = generation + 2`, "sending"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.admit(ask("r:1", 0))
			switch change.from {
			case "sending":
				b.claimOne(me)
			case "exhausted":
				b.settle(intenttest.Exhausted(b.claimOne(me), me))
			}
			end := b.hold(change.sql)
			got := b.admission(ask("r:1", 1))
			b.waiting(1)
			end("commit")
			v := (<-got)[0]
			i := b.find("r:1", 0)
			if v.Kind != intents.Accepted || string(i.State) != change.want || i.SupersededBy != v.Intent {
				t.Errorf("%+v; the older one is %s, superseded by %v; want %s", v, i.State, i.SupersededBy, change.want)
			}
		})
	}
}

// The other way round: the older one's worker waits for the transaction that supersedes it.
func TestSettleWaitsForSupersession(t *testing.T) {
	for name, test := range map[string]struct {
		settle func(intents.Claim) intents.Settlement
		want   intents.State
	}{
		"retry":     {func(c intents.Claim) intents.Settlement { return notSent(c, me, 0) }, intents.SupersededState},
		"hand back": {func(c intents.Claim) intents.Settlement { return handBack(c, me) }, intents.SupersededState},
		"resend":    {func(c intents.Claim) intents.Settlement { return resent(c, me) }, intents.UnknownState},
		"success":   {func(c intents.Claim) intents.Settlement { return succeeded(c, me) }, intents.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.admit(ask("r:1", 0))
			c := b.claimOne(me)
			end := b.hold(`update intents set superseded_by = gen_random_uuid()`)
			got := make(chan []intents.Settled)
			go func() {
				out, err := b.Settle(b.ctx, []intents.Settlement{test.settle(c)}, nil)
				if err != nil {
					t.Error(err)
				}
				got <- out
			}()
			b.waiting(1)
			end("commit")
			if out := (<-got)[0]; out.State != test.want || out.Fenced {
				t.Errorf("%+v, want %s", out, test.want)
			}
			b.wantState("r:1", 0, test.want)
		})
	}
}

// A settlement waits for the witness, whose evidence is not in its snapshot: it reads in the row that the effect is there.
func TestSettleWaitsForTheWitness(t *testing.T) {
	for name, settle := range map[string]func(intents.Claim, string) intents.Settlement{"parked": parked, "resent": resent} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.admit(ask("w:1", 0))
			c := b.claimOne(me)
			b.pass(intenttest.Lease)
			b.settle(leaseOver(b.takeOver(them)[0], them, false))
			again := b.claimOne(them)
			end := b.hold(`select from intents for update`)
			witnessed, settled := make(chan error), make(chan []intents.Settled)
			go func() {
				_, err := b.Witness(b.ctx, succeeded(c, me))
				witnessed <- err
			}()
			b.waiting(1)
			go func() {
				out, err := b.Settle(b.ctx, []intents.Settlement{settle(again, them)}, nil)
				if err != nil {
					t.Error(err)
				}
				settled <- out
			}()
			b.waiting(2)
			end("commit")
			if err := <-witnessed; err != nil {
				t.Fatal(err)
			}
			if out := (<-settled)[0]; out.State != intents.Succeeded || out.Fenced {
				t.Errorf("%+v", out)
			}
		})
	}
}

// A claim that had to wait has an old snapshot: the agenda in it says that an intent is due which has been tried meanwhile, and
// which backs off.
func TestClaimDoesNotTrustAnOldAgenda(t *testing.T) {
	b := newBench(t)
	b.admit(ask("old:1", 0, intenttest.Urgency(intents.High)))
	w := wish("mail", me, 5)
	if _, err := b.Claim(b.ctx, w); err != nil {
		t.Fatal(err)
	}
	b.admit(ask("c:1", 0))
	end := b.hold(`update intents set generation = generation + 1 where key = 'old:1'`) // taken over: the wish waits for this
	got := make(chan []intents.Claim)
	go func() {
		cs, err := b.Claim(b.ctx, w)
		if err != nil {
			t.Error(err)
		}
		got <- cs
	}()
	b.waiting(1)
	b.settle(notSent(b.claimOne(them), them, time.Hour))
	end("commit")
	if cs := <-got; len(cs) != 0 {
		t.Errorf("claimed in its back-off: %+v", cs)
	}
	b.wantState("c:1", 0, intents.Pending)
}

// Cancelling waits for a worker that hands back, and then it can.
func TestCancelWaitsForTheHandBack(t *testing.T) {
	b := newBench(t)
	b.admit(ask("c:1", 0))
	b.exec(`update intents set generation = 1`)
	end := b.hold(`update intents set generation = 2`)
	done := make(chan bool)
	go func() {
		_, _, cancelled, err := b.Cancel(b.ctx, ask("c:1", 0).Identity, "shop")
		if err != nil {
			t.Error(err)
		}
		done <- cancelled
	}()
	b.waiting(1)
	end("commit")
	if !<-done {
		t.Error("it waits and is in no doubt, but was not cancelled")
	}
}

func TestRevisionsOfOneFactInAnyOrder(t *testing.T) {
	b := newBench(t)
	for round := range 15 {
		key := fmt.Sprintf("r:%d", round)
		fs := make([]func(), 0, 12)
		for _, revision := range []int32{3, 0, 2, 1, 3, 4} {
			fs = append(fs, func() {
				if _, err := b.Admit(b.ctx, batchOf(ask(key, revision, now))); err != nil {
					t.Error(err)
				}
			}, func() {
				for _, c := range b.claim(me, 2) {
					b.settle(notSent(c, me, 0))
				}
			})
		}
		together(fs...)
		if n := one[int](b, `select count(*) from intents where key = $1 and state = 'pending' and revision < 4`, key); n != 0 {
			t.Errorf("%d older revisions wait", n)
		}
		b.wantNewest(key, 4)
	}
	b.holds()
}

func (b *bench) wantNewest(key string, revision int32) {
	b.t.Helper()
	fact := ask(key, 0).Identity.Fact()
	if got := one[int32](b, `select revision from keys where fact = $1`, fact[:]); got != revision {
		b.t.Errorf("the newest revision of %s is %d", key, got)
	}
}

// Every pair of writers that can meet on one intent meets on it, many times; whoever comes second must notice.
func TestWritersThatMeet(t *testing.T) {
	b := benchAt(t, pgtest.New(t), pgstore.Options{MaxConns: 4})
	type meeting struct {
		first, second func(key string, c intents.Claim)
	}
	settle := func(key string, c intents.Claim) { b.settle(notSent(c, me, 0)) }
	succeed := func(key string, c intents.Claim) { b.settle(succeeded(c, me)) }
	supersede := func(key string, c intents.Claim) { b.admit(ask(key, 1)) }
	cancel := func(key string, c intents.Claim) {
		if _, _, _, err := b.Cancel(b.ctx, ask(key, 0).Identity, "shop"); err != nil {
			t.Error(err)
		}
	}
	claim := func(key string, c intents.Claim) { b.claim(them, 1) }
	takeOver := func(key string, c intents.Claim) { b.takeOver(them) }
	sweep := func(key string, c intents.Claim) {
		if _, err := b.Sweep(b.ctx, 10); err != nil {
			t.Error(err)
		}
	}
	witness := func(key string, c intents.Claim) {
		if _, err := b.Witness(b.ctx, succeeded(c, me)); err != nil {
			t.Error(err)
		}
	}
	waits := func(key string) (c intents.Claim) { b.admit(ask(key, 0)); return c }
	due := func(key string) intents.Claim { b.admit(ask(key, 0)); return b.claimOne(me) }
	over := func(key string) intents.Claim { c := due(key); b.pass(intenttest.Lease); return c }
	late := func(key string) (c intents.Claim) {
		b.admit(ask(key, 0, intenttest.ExpiresIn(time.Hour)))
		b.exec(`update agenda set expires_at = now() - interval '1 second'`)
		return c
	}
	parkedByTakeover := func(key string) intents.Claim {
		c := over(key)
		b.settle(leaseOver(b.takeOver(them)[0], them, true))
		return c
	}
	for name, m := range map[string]struct {
		prepare func(key string) intents.Claim
		meeting
	}{
		"settle and supersede":           {due, meeting{settle, supersede}},
		"success and supersede":          {due, meeting{succeed, supersede}},
		"late settle and takeover":       {over, meeting{succeed, takeOver}},
		"late retry and takeover":        {over, meeting{settle, takeOver}},
		"two takeovers":                  {over, meeting{takeOver, takeOver}},
		"takeover and supersede":         {over, meeting{takeOver, supersede}},
		"cancel and claim":               {waits, meeting{cancel, claim}},
		"claim and claim":                {waits, meeting{claim, claim}},
		"claim and supersede":            {waits, meeting{claim, supersede}},
		"cancel and supersede":           {waits, meeting{cancel, supersede}},
		"sweep and claim":                {late, meeting{sweep, claim}},
		"sweep and cancel":               {late, meeting{sweep, cancel}},
		"evidence and supersede":         {parkedByTakeover, meeting{witness, supersede}},
		"evidence and the same evidence": {parkedByTakeover, meeting{witness, witness}},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 12 {
				b.exec(`truncate keys, keys_older, intents, contents, agenda, claim_batches, attempts, changes, evidence, outbox`)
				key := fmt.Sprintf("m:%d", round)
				c := m.prepare(key)
				together(func() { m.first(key, c) }, func() { m.second(key, c) })
				b.t = t
				b.holds()
				if n := one[int](b, `select count(*) from evidence`); n > 1 {
					t.Errorf("heard %d times", n)
				}
			}
		})
	}
}
