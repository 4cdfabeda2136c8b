package pgstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
	"github.com/onebell/onebell/intents/pgstore"
	"github.com/onebell/onebell/migrations/pgtest"
)

// restoring is a bench whose own connections are no dispatcher's.
func restoring(t *testing.T) *bench {
	t.Helper()
	return benchAt(t, pgtest.New(t), pgstore.Options{MaxConns: 2, ApplicationName: "onebell restore-mark"})
}

var byHand = intents.Act{Actor: "ada", Reason: "the backup of 04:00", Place: "db1"}

func keyed(a *intents.Admission) { a.Guarantee = channels.Keyed }

func (b *bench) restore(r intents.Restoration) intents.Restored {
	b.t.Helper()
	r.Act = byHand
	done, err := b.Restore(b.ctx, r)
	if err != nil {
		b.t.Fatal(err)
	}
	return done
}

// D7: nothing that a backup has as open is sent as if nobody could have sent it since.
func TestD7ARestoredDatabaseSendsNothingSilently(t *testing.T) {
	t.Parallel()
	b := restoring(t)
	b.admit(ask("r:flying", 0))
	flying := b.claimOne("dead")
	b.admit(ask("r:batched", 0, now), ask("r:waiting", 0), ask("r:keyed", 0, keyed), ask("r:later", 0, intenttest.NotBefore(time.Hour)))
	b.admit(ask("r:done", 0))
	for _, c := range b.claim(me, 10) {
		if string(c.Identity.Key) == "r:done" {
			b.settle(succeeded(c, me))
			continue
		}
		b.settle(handBack(c, me))
	}
	if _, err := b.Restore(b.ctx, intents.Restoration{Act: byHand}); !errors.As(err, new(*pgstore.AtWorkError)) || !strings.Contains(err.Error(), "dead") {
		t.Fatalf("marked while leases stand: %v", err)
	}
	before := b.dump()
	if done := b.restore(intents.Restoration{Stopped: true, Refuse: true, DryRun: true}); len(done.Channels) != 1 || done.Channels[0].Unknown != 2 {
		t.Errorf("a dry run says %+v", done)
	}
	if after := b.dump(); after != before {
		t.Error("a dry run changed something")
	}

	done := b.restore(intents.Restoration{Stopped: true, Refuse: true})
	if want := (intents.RestoredChannel{Channel: "mail", Unknown: 2, InDoubt: 2, NotDue: 1}); len(done.Channels) != 1 || done.Channels[0] != want {
		t.Errorf("marked %+v, want %+v", done.Channels, want)
	}
	for key, state := range map[string]intents.State{
		"r:flying": intents.UnknownState, "r:waiting": intents.UnknownState, "r:batched": intents.Pending, "r:keyed": intents.Pending,
		"r:later": intents.Pending, "r:done": intents.Succeeded,
	} {
		if i := b.wantState(key, 0, state); i.Code != "restored" && key != "r:later" && key != "r:done" {
			t.Errorf("%s has the code %q", key, i.Code)
		}
	}
	again := b.restore(intents.Restoration{Stopped: true, Refuse: true})
	if want := (intents.RestoredChannel{Channel: "mail", InDoubt: 0, NotDue: 1, Before: 2}); again.Channels[0] != want {
		t.Errorf("a second run did %+v, want %+v", again.Channels[0], want)
	}
	for _, c := range b.claim(me, 10) {
		if !c.Doubt || c.FirstUsedAt.IsZero() {
			t.Errorf("%s is claimed as if it had never been sent: %+v", c.Identity.Key, c)
		}
		b.settle(handBack(c, me))
	}
	b.settle(succeeded(flying, "dead"))
	b.wantState("r:flying", 0, intents.UnknownState) // who worked on the lost database changes nothing in the restored one
	if n := one[int](b, `select count(*) from audit where what = 'restore-mark' and actor = 'ada' and reason <> '' and place = 'db1'`); n != 2 {
		t.Errorf("%d runs in the audit, want 2", n)
	}
	b.holds()
}

func TestD7FactsOfTheGap(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{true, false} {
		b := restoring(t)
		b.admit(ask("g:known", 0))
		b.restore(intents.Restoration{Refuse: refuse})
		vs := b.admit(ask("g:known", 0), ask("g:lost", 0, at(time.Now().Add(-time.Minute))), ask("g:new", 0, at(time.Now().Add(time.Minute))))
		want := map[bool]intents.VerdictKind{true: intents.Stale, false: intents.Accepted}[refuse]
		if vs[0].Kind != intents.Duplicate || vs[1].Kind != want || vs[2].Kind != intents.Accepted {
			t.Errorf("refuse %v: remembered %s, lost %s, of today %s", refuse, vs[0].Kind, vs[1].Kind, vs[2].Kind)
		}
	}
	b := restoring(t)
	if _, err := b.Restore(b.ctx, intents.Restoration{Act: byHand, Refuse: true, Until: time.Now().Add(time.Hour)}); err == nil {
		t.Error("a gap that ends tomorrow")
	}
}

func TestRestoreKeepsOffWhileDispatchersAreConnected(t *testing.T) {
	t.Parallel()
	b := restoring(t)
	working := benchAt(t, b.url, pgstore.Options{})
	working.admit(ask("c:1", 0))
	if _, err := b.Restore(b.ctx, intents.Restoration{Act: byHand, Stopped: true}); !errors.As(err, new(*pgstore.AtWorkError)) || !strings.Contains(err.Error(), "stop them") {
		t.Errorf("marked under a dispatcher: %v", err)
	}
}

// What somebody knows who worked on the lost database says nothing of the attempts that the gap swallowed, and a key that a receiver was shown
// before the backup counts from then.
func TestD7WhoComesLateToARestoredDatabase(t *testing.T) {
	t.Parallel()
	b := restoring(t)
	b.admit(ask("l:flying", 0))
	flying := b.claimOne("dead")
	b.admit(ask("l:put-off", 0, keyed))
	put := b.claimOne(me)
	o := channels.OutcomeThrottled(0, "429", "too many")
	b.settle(intents.Settlement{ID: put.ID, Generation: put.Generation, Owner: me, Transition: intents.Retry(o, 0, true), Outcome: o, Took: time.Millisecond})
	shown := one[time.Time](b, `select started_at from attempts`)
	b.exec(`update intents set updated_at = now() + interval '1 s' where id = $1`, put.ID)
	b.restore(intents.Restoration{Stopped: true, Until: one[time.Time](b, `select now() + interval '1 minute'`)})
	if i := b.wantState("l:put-off", 0, intents.Pending); !i.FirstUsedAt.Equal(shown) || i.Generation != put.Generation+1 {
		t.Errorf("generation %d, its key in use since %v; want %d, %v", i.Generation, i.FirstUsedAt, put.Generation+1, shown)
	}
	if _, err := b.Witness(b.ctx, notSent(flying, "dead", 0)); err != nil {
		t.Fatal(err)
	}
	if i := b.wantState("l:flying", 0, intents.UnknownState); i.Generation != flying.Generation+1 {
		t.Errorf("generation %d, want %d", i.Generation, flying.Generation+1)
	}
	if _, err := b.Witness(b.ctx, succeeded(flying, "dead")); err != nil {
		t.Fatal(err)
	}
	b.holds()
}

// What the agenda and the claim batches still hold of intents that are settled or purged hides nothing that is open.
func TestD7RestoreMarksBehindPagesOfNothing(t *testing.T) {
	t.Parallel()
	b := restoring(t)
	b.exec(`insert into agenda (intent_id, channel, kind, priority, at, fact, revision, generation)
		select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'mail', 'due', 1, now(), '', 0, 0 from generate_series(1, 2500) n`)
	b.exec(`insert into claim_batches (id, owner, lease_until, intents)
		select gen_random_uuid(), 'gone', now() - interval '1 h', array_agg(('00000001-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid) from generate_series(1, 2500) n`)
	var asked []intents.Admission
	for n := range 1200 {
		asked = append(asked, ask(fmt.Sprintf("p:%d", n), 0))
	}
	b.admit(asked...)
	if done := b.restore(intents.Restoration{}); done.Channels[0].Unknown != len(asked) {
		t.Errorf("marked %+v, want %d", done.Channels, len(asked))
	}
}

// A dispatcher that holds a lock is somebody at work, and a dry run is one run.
func TestRestoreIsOneTry(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	b := benchAt(t, pgtest.New(t), pgstore.Options{ApplicationName: "onebell restore-mark", Log: slog.New(slog.NewTextHandler(&said, nil))})
	b.admit(ask("o:1", 0, toCanary))
	b.restore(intents.Restoration{DryRun: true})
	b.erase(intents.Erasure{DryRun: true})
	held, err := b.db.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(b.ctx, `update intents set updated_at = now()`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restore(b.ctx, intents.Restoration{Act: byHand}); !errors.As(err, new(*pgstore.AtWorkError)) {
		t.Errorf("under somebody else's lock: %v", err)
	}
	if err := held.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.wantState("o:1", 0, intents.Pending)
	if said.Len() > 0 {
		t.Errorf("tried again: %s", said.String())
	}
}

func TestRestoreRefusesAGapThatCannotBe(t *testing.T) {
	t.Parallel()
	b := restoring(t)
	b.admit(ask("u:1", 0))
	for name, until := range map[string]time.Time{"ahead": time.Now().Add(time.Hour), "before the newest intent": time.Now().Add(-time.Hour)} {
		if _, err := b.Restore(b.ctx, intents.Restoration{Act: byHand, Refuse: true, Until: until}); !errors.As(err, new(*pgstore.UntilError)) {
			t.Errorf("a gap that ends %s: %v", name, err)
		}
	}
	if got := one[string](b, `select acked_to::text from watermark`); got != "-infinity" {
		t.Errorf("the watermark moved to %s", got)
	}
	if done := b.restore(intents.Restoration{Refuse: true, Until: time.Now().Add(time.Minute)}); done.Channels[0].Unknown != 1 {
		t.Errorf("marked %+v", done.Channels)
	}
}
