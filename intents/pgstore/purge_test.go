package pgstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

const day = 24 * time.Hour

// forget goes once through all rows of a kind, a few at a time, and deletes those that may go.
func (b *bench) forget(kind intents.PurgeKind, keep time.Duration, size int) (gone int) {
	b.t.Helper()
	var after intents.PurgeMark
	for {
		page, err := b.Purgeable(b.ctx, kind, keep, after, size)
		if err != nil {
			b.t.Fatal(err)
		}
		var marks []intents.PurgeMark
		for _, r := range page {
			if r.Ripe {
				marks = append(marks, r.Mark)
			}
		}
		n, err := b.Purge(b.ctx, kind, keep, marks)
		if err != nil {
			b.t.Fatal(err)
		}
		if gone += n; len(page) < size {
			return gone
		}
		after = page[len(page)-1].Mark
	}
}

// move moves the watermark.
func (b *bench) move(keep time.Duration) intents.Watermark {
	b.t.Helper()
	w, moved, err := b.MoveWatermark(b.ctx, keep, patience)
	if err != nil || !moved {
		b.t.Fatalf("moved %v, %v", moved, err)
	}
	return w
}

// age makes everything that is stored d older, but the times of facts.
func (b *bench) age(d time.Duration) {
	b.t.Helper()
	shifted := func(id string) string {
		hex := fmt.Sprintf("lpad(to_hex(('x' || left(replace(%s::text, '-', ''), 12))::bit(48)::bigint - $1::bigint), 12, '0')", id)
		return fmt.Sprintf("(substr(%[1]s, 1, 8) || '-' || substr(%[1]s, 9, 4) || substr(%[2]s::text, 14))::uuid", hex, id)
	}
	for _, table := range []string{"keys", "keys_older", "contents", "agenda", "attempts", "changes", "evidence"} {
		b.exec(`update `+table+` set intent_id = `+shifted("intent_id"), d.Milliseconds())
	}
	b.exec(`update intents set id = `+shifted("id")+`, superseded_by = `+shifted("superseded_by")+`,
		created_at = created_at - $1 * interval '1 ms', updated_at = updated_at - $1 * interval '1 ms'`, d.Milliseconds())
	b.exec(`update refusals set at = at - $1 * interval '1 ms'`, d.Milliseconds())
}

// ago is the time of a fact that happened d ago.
func ago(d time.Duration) func(*intents.Admission) { return at(time.Now().Add(-d)) }

// keysLeft lists the facts that are remembered.
func (b *bench) keysLeft() []string {
	b.t.Helper()
	rows, _ := b.db.Query(b.ctx, `select distinct i.key from intents i where exists (select from keys k where k.fact = i.fact)
		or exists (select from keys_older o where o.fact = i.fact) order by 1`)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return keys
}

// in puts the only due intent into a state, by the ways there are.
func (b *bench) in(key string, state intents.State) {
	b.t.Helper()
	switch state {
	case intents.Pending:
	case intents.Sending:
		b.claimOne(me)
	case intents.UnknownState:
		b.settle(parked(b.claimOne(me), me))
	case intents.Succeeded:
		b.settle(succeeded(b.claimOne(me), me))
	default:
		b.claimOne(me)
		b.exec(`delete from agenda a using intents i where i.id = a.intent_id and i.key = $1`, key)
	}
	b.exec(`update intents set state = $2, owner = case $2 when 'sending' then owner else '' end where key = $1`, key, string(state))
}

// I12: what is not over is never forgotten, however old: neither the intent, nor its key, nor what it would send. A state that this version
// does not know is not over.
func TestD3WhatIsNotOverIsNeverForgotten(t *testing.T) {
	b := newBench(t)
	var want []string
	for _, state := range append(intents.States(), "held-by-a-later-version") {
		key := "d:" + string(state)
		b.admit(ask(key, 0, ago(1000*day)))
		b.in(key, state)
		b.exec(`update agenda set at = 'infinity' where kind = 'due'`) // out of the next one's way
		if !state.Terminal() {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	b.age(1000 * day)
	b.move(4 * day)
	for _, kind := range intents.PurgeKinds() {
		b.forget(kind, 4*day, 3)
	}
	if got := b.keysLeft(); !slices.Equal(got, want) {
		t.Errorf("remembered: %v, want %v", got, want)
	}
	b.stillThere(want)
	for _, key := range want {
		if v := b.admit(ask(key, 0, ago(1000*day)))[0]; v.Kind == intents.Accepted || v.Kind == intents.Stale {
			t.Errorf("%s: %+v", key, v)
		}
	}
	// Also one whose key went before it was taken up again, by an operator.
	b.exec(`delete from keys`)
	for _, kind := range intents.PurgeKinds() {
		b.forget(kind, 4*day, 3)
	}
	b.stillThere(want)
}

// stillThere fails unless those keys' intents and contents are there, and no others.
func (b *bench) stillThere(want []string) {
	b.t.Helper()
	for _, table := range []string{"intents", "contents"} {
		if n := one[int](b, `select count(*) from `+table); n != len(want) {
			b.t.Errorf("%d %s are left, want %d", n, table, len(want))
		}
	}
}

// D3: the same key at R-1 s, R+1 s and 10 R.
func TestD3TheSameKeyAroundTheWindow(t *testing.T) {
	const keep = 4 * day
	b := newBench(t)
	young, old, ancient := ago(keep-time.Minute), ago(keep+time.Second), ago(10*keep)
	b.admit(ask("d:young", 0, young), ask("d:old", 0, old), ask("d:ancient", 0, ancient))
	for _, c := range b.claim(me, 3) {
		b.settle(succeeded(c, me))
	}
	repeat := func(when string, want intents.VerdictKind) {
		t.Helper()
		for i, v := range b.admit(ask("d:young", 0, young), ask("d:old", 0, old), ask("d:ancient", 0, ancient)) {
			if k := want; v.Kind != k && !(i == 0 && v.Kind == intents.Duplicate) {
				t.Errorf("%s, repeat %d: %+v, want %s", when, i, v, want)
			}
		}
	}
	repeat("before the purge", intents.Duplicate)
	b.move(keep)
	repeat("behind the watermark and not deleted yet", intents.Duplicate)
	if n := b.forget(intents.PurgeKeys, keep, 10); n != 2 {
		t.Errorf("%d facts were forgotten, want 2", n)
	}
	repeat("forgotten", intents.Stale)
	if v := b.admit(ask("d:young", 0, young))[0]; v.Kind != intents.Duplicate {
		t.Errorf("the one inside the window: %+v", v)
	}
}

// Keys go where the watermark is, whatever the caller's window says: it may not run ahead.
func TestD3KeysGoOnlyBehindTheWatermark(t *testing.T) {
	b := newBench(t)
	old := ago(10 * day)
	b.admit(ask("d:1", 0, old))
	b.settle(succeeded(b.claimOne(me), me))
	if n := b.forget(intents.PurgeKeys, 4*day, 10); n != 0 {
		t.Errorf("a key went before the watermark was ever moved")
	}
	b.move(20 * day)
	if n := b.forget(intents.PurgeKeys, 4*day, 10); n != 0 {
		t.Errorf("a key went ahead of the watermark")
	}
	if v := b.admit(ask("d:1", 0, old))[0]; v.Kind != intents.Duplicate {
		t.Errorf("%+v", v)
	}
	b.move(4 * day)
	b.move(20 * day) // the window was raised; the watermark stays, keys that are inside stay, too
	if n := b.forget(intents.PurgeKeys, 20*day, 10); n != 0 {
		t.Errorf("a key inside the window went")
	}
	if n := b.forget(intents.PurgeKeys, 4*day, 10); n != 1 {
		t.Errorf("%d keys went, want 1", n)
	}
	if v := b.admit(ask("d:1", 0, old))[0]; v.Kind != intents.Stale {
		t.Errorf("%+v", v)
	}
}

// The revisions of a fact are forgotten together: their times may come in any order, and a late repeat of any of them is not new.
func TestD3RevisionsGoTogether(t *testing.T) {
	const keep = 4 * day
	old, young := ago(6*day), ago(2*day)
	for name, times := range map[string][]func(*intents.Admission){
		"the newest is young": {old, old, young}, "the oldest is young": {young, old, old}, "one between is young": {old, young, old}, "all are old": {old, old, old},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for r, when := range times {
				b.admit(ask("d:1", int32(r), when))
			}
			b.settle(succeeded(b.claimOne(me), me))
			b.move(keep)
			want := map[bool]int{true: 1}[strings.HasPrefix(name, "all")]
			if n := b.forget(intents.PurgeKeys, keep, 10); n != want {
				t.Errorf("%d facts were forgotten, want %d", n, want)
			}
			for r, when := range times {
				if v := b.admit(ask("d:1", int32(r), when))[0]; v.Kind == intents.Accepted || (v.Kind == intents.Stale) != (want == 1) {
					t.Errorf("revision %d: %+v", r, v)
				}
			}
			if n := one[int](b, `select (select count(*) from keys) + (select count(*) from keys_older)`); n != 3*(1-want) {
				t.Errorf("%d keys are left", n)
			}
		})
	}
	t.Run("an older one is unknown", func(t *testing.T) {
		b := newBench(t)
		b.admit(ask("d:1", 0, old))
		b.settle(parked(b.claimOne(me), me))
		b.admit(ask("d:1", 1, old))
		b.settle(succeeded(b.claimOne(me), me))
		b.move(keep)
		if n := b.forget(intents.PurgeKeys, keep, 10); n != 0 {
			t.Error("the fact was forgotten")
		}
	})
}

// Contents go by a window of their own, and the recipient with them; its keyed hash stays, and so does what a repeat is compared with.
func TestContentsGoBeforeTheirIntents(t *testing.T) {
	b := newBench(t)
	b.admit(ask("c:1", 0))
	b.settle(succeeded(b.claimOne(me), me))
	b.age(3 * day)
	if n := b.forget(intents.PurgeContents, 4*day, 10); n != 0 {
		t.Error("a content went inside its window")
	}
	b.exec(`update intents set updated_at = now()`) // admitted long ago, and over since now
	if n := b.forget(intents.PurgeContents, 2*day, 10); n != 0 {
		t.Error("the window counts from the end")
	}
	b.age(3 * day)
	if n := b.forget(intents.PurgeContents, 2*day, 10); n != 1 {
		t.Errorf("%d contents went, want 1", n)
	}
	if i := b.find("c:1", 0); i.Recipient != "" || i.State != intents.Succeeded {
		t.Errorf("%+v", i)
	}
	if n := one[int](b, `select count(*) from intents where length(recipient_hash) > 0`); n != 1 {
		t.Error("the keyed hash is gone")
	}
	vs := b.admit(ask("c:1", 0), ask("c:1", 0, text("other")))
	if vs[0].Kind != intents.Duplicate || vs[1].Kind != intents.Conflict {
		t.Errorf("%+v", vs)
	}
}

// An intent goes with everything that is recorded of it, once no key leads to it; refusals go by their own time.
func TestIntentsGoWithTheirRecords(t *testing.T) {
	b := newBench(t)
	old := ago(10 * day)
	b.admit(ask("i:1", 0, old))
	c := b.claimOne(me)
	b.settle(parked(c, me))
	if _, err := b.LookedUp(b.ctx, intents.Answer{ID: c.ID, Generation: c.Generation, Actor: me, Outcome: succeeded(c, me).Outcome}); err != nil {
		t.Fatal(err)
	}
	b.wantState("i:1", 0, intents.Succeeded)
	if err := b.Refuse(b.ctx, []intents.Refusal{{ID: c.ID, Verdict: intents.Stale}, {ID: ask("x", 0).Token, Verdict: intents.Stale}}); err != nil {
		t.Fatal(err)
	}
	b.age(3 * day)
	b.exec(`update refusals set at = now() where id <> $1`, c.ID)
	if n := b.forget(intents.PurgeIntents, 2*day, 10); n != 0 {
		t.Error("an intent went before its key")
	}
	b.move(4 * day)
	b.forget(intents.PurgeKeys, 4*day, 10)
	if n := b.forget(intents.PurgeIntents, 4*day, 10); n != 0 {
		t.Error("an intent went inside its window")
	}
	if n := b.forget(intents.PurgeIntents, 2*day, 10); n != 1 {
		t.Errorf("%d intents went, want 1", n)
	}
	for _, table := range []string{"intents", "contents", "attempts", "changes", "evidence", "keys"} {
		if n := one[int](b, `select count(*) from `+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if n := b.forget(intents.PurgeRefusals, 2*day, 10); n != 1 || one[int](b, `select count(*) from refusals`) != 1 {
		t.Errorf("%d refusals went, want 1 of 2", n)
	}
}

// Pages of rows that may not go hide none behind them, also where many facts have one and the same time.
func TestUntouchableRowsHideNothing(t *testing.T) {
	b := newBench(t)
	midnight := ago(10 * day)
	var as []intents.Admission
	for i := range 40 {
		as = append(as, ask(fmt.Sprintf("u:%d", i), 0, midnight))
	}
	b.admit(as...)
	cs := b.claim(me, 40)
	slices.SortFunc(cs, func(x, y intents.Claim) int { return strings.Compare(x.ID.String(), y.ID.String()) })
	for i, c := range cs {
		if i == 17 || i == 39 {
			b.settle(succeeded(c, me))
		} else {
			b.settle(parked(c, me))
		}
	}
	b.age(10 * day)
	b.move(4 * day)
	for _, kind := range []intents.PurgeKind{intents.PurgeKeys, intents.PurgeContents, intents.PurgeIntents} {
		if n := b.forget(kind, 4*day, 5); n != 2 {
			t.Errorf("%d %s went, want 2", n, kind)
		}
	}
	if n := one[int](b, `select count(*) from intents where state = 'unknown'`); n != 38 {
		t.Errorf("%d unknown ones are left", n)
	}
}

// What somebody is at is passed over, and nobody is waited for.
func TestPurgePassesOverWhatIsHeld(t *testing.T) {
	b := newBench(t)
	old := ago(10 * day)
	b.admit(ask("h:1", 0, old), ask("h:2", 0, old))
	for _, c := range b.claim(me, 2) {
		b.settle(succeeded(c, me))
	}
	b.age(10 * day)
	b.move(4 * day)
	fact := ask("h:1", 0).Identity.Fact()
	end := b.hold(`select from keys where fact = $1 for update`, fact[:])
	if n := b.forget(intents.PurgeKeys, 4*day, 10); n != 1 {
		t.Errorf("%d keys went, want 1", n)
	}
	end("rollback")
	b.forget(intents.PurgeKeys, 4*day, 10)
	end = b.hold(`select from intents where key = 'h:1' for update`)
	for _, kind := range []intents.PurgeKind{intents.PurgeContents, intents.PurgeIntents} {
		if n := b.forget(kind, 4*day, 10); n != 1 {
			t.Errorf("%d %s went, want 1", n, kind)
		}
	}
	end("rollback")
	if n := b.forget(intents.PurgeIntents, 4*day, 10); n != 1 {
		t.Errorf("%d intents went, want 1", n)
	}
}
