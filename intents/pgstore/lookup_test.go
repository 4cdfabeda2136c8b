package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

func (b *bench) unknowns(n int) []intents.Question {
	b.t.Helper()
	qs, err := b.Unknowns(b.ctx, "mail", n)
	if err != nil {
		b.t.Fatal(err)
	}
	return qs
}

func (b *bench) lookedUp(q intents.Question, o channels.Outcome, hold bool) intents.Settled {
	b.t.Helper()
	got, err := b.LookedUp(b.ctx, intents.Answer{ID: q.ID, Generation: q.Generation, Actor: me, Outcome: o, Hold: hold})
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

var (
	isThere  = channels.OutcomeAccepted("n-1", "look-up", "")
	notThere = channels.OutcomeNotSent(channels.PhaseReply, "look-up", "")
)

// asking asks about what is UNKNOWN, and returns with it the time for which the asked one is left alone, as bounds: the statement's own
// instant is between two readings of the clock.
func (b *bench) asking() (qs []intents.Question, elapsed, pause [2]time.Duration) {
	b.t.Helper()
	clock := func() time.Time { return one[time.Time](b, `select clock_timestamp()`) }
	before := clock()
	qs = b.unknowns(9)
	after := clock()
	at := one[time.Time](b, `select at from agenda where kind = 'unknown'`)
	if look := one[*time.Time](b, `select look_at from agenda where kind = 'unknown'`); look != nil {
		pause = [2]time.Duration{look.Sub(after), look.Sub(before)}
	}
	return qs, [2]time.Duration{before.Sub(at), after.Sub(at)}, pause
}

// Pauses grow from five seconds to ten minutes, whoever asks.
func TestLookUpsPauseLongerEachTime(t *testing.T) {
	b := newBench(t)
	b.admit(ask("l:1", 0), ask("l:2", 0, intenttest.On("other")), ask("l:3", 0))
	for _, c := range b.claim(me, 1) {
		b.settle(parked(c, me))
	}
	const first, longest = 5 * time.Second, 10 * time.Minute
	for { // as often as a slow machine needs to ask within the first five seconds
		b.exec(`update agenda set at = now(), look_at = null where kind = 'unknown'`)
		qs, elapsed, _ := b.asking()
		if elapsed[1] >= first {
			continue
		}
		if len(qs) != 0 {
			t.Fatalf("asked at once: %+v", qs)
		}
		break
	}
	b.pass(first)
	want := func(elapsed time.Duration) time.Duration { return min(max(elapsed, first), longest) }
	var since time.Duration
	for n := range 10 {
		qs, elapsed, pause := b.asking()
		if len(qs) != 1 || string(qs[0].Rendered) != "rendered l:1" || qs[0].Recipient == "" || qs[0].EffectKey != "effect-l:1" || qs[0].Attempts != 1 {
			t.Fatalf("look-up %d after %v: %+v", n, elapsed, qs)
		}
		if pause[1] < want(elapsed[0]) || pause[0] > want(elapsed[1]) {
			t.Errorf("look-up %d after %v, the next one in %v", n, elapsed, pause)
		}
		if pause[0] > 2*time.Minute { // long enough to be certain that it is not over
			b.pass(pause[0] - time.Minute)
			if again := b.unknowns(9); len(again) != 0 {
				t.Fatalf("look-up %d was repeated before its pause was over", n)
			}
			pause[1] = time.Minute
		}
		b.pass(pause[1])
		since = elapsed[0]
	}
	if since < 30*time.Minute {
		t.Errorf("ten look-ups in %v", since)
	}
}

// One that never brings an answer does not stand before others.
func TestLookUpsHideNothing(t *testing.T) {
	b := newBench(t)
	asked := map[string]int{}
	for i := range 20 {
		b.admit(ask(fmt.Sprintf("h:%d", i), 0))
	}
	for _, c := range b.claim(me, 20) {
		b.settle(parked(c, me))
	}
	b.pass(6 * time.Second)
	for range 10 {
		for _, q := range b.unknowns(2) {
			asked[q.EffectKey]++
		}
	}
	if len(asked) != 20 {
		t.Errorf("asked about %d of 20", len(asked))
	}
}

// What a provider says of the effect key speaks of all its attempts, and of none that was begun since.
func TestLookUpIsTestimony(t *testing.T) {
	for name, test := range map[string]struct {
		prepare  func(*bench)
		meantime func(*bench)
		says     channels.Outcome
		hold     bool
		want     intents.State
		settles  bool
	}{
		"it is there":                     {says: isThere, want: intents.Succeeded, settles: true},
		"it is not":                       {says: notThere, want: intents.Pending, settles: true},
		"it is not, nor will be":          {says: notThere, hold: true, want: intents.UnknownState},
		"it is there, late":               {says: isThere, hold: true, want: intents.Succeeded, settles: true},
		"refused":                         {says: channels.OutcomeRefused("410", ""), want: intents.Rejected, settles: true},
		"none of two is there":            {prepare: (*bench).twice, says: notThere, want: intents.Pending, settles: true},
		"a newer one is":                  {meantime: func(b *bench) { b.admit(ask("t:1", 1)) }, says: notThere, want: intents.SupersededState, settles: true},
		"it was not, and is sent again":   {meantime: (*bench).redecided, says: notThere, want: intents.Sending},
		"it was there, and is sent again": {meantime: (*bench).redecided, says: isThere, want: intents.Sending},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.admit(ask("t:1", 0))
			if test.prepare != nil {
				test.prepare(b)
			}
			b.settle(parked(b.claimOne(me), me))
			b.pass(6 * time.Second)
			q := b.unknowns(1)[0]
			if test.meantime != nil {
				test.meantime(b)
			}
			first, second := b.lookedUp(q, test.says, test.hold), b.lookedUp(q, test.says, test.hold) // two dispatchers
			if first.State != test.want || first.Fenced == test.settles || second != first {
				t.Errorf("%+v, then %+v; want %s", first, second, test.want)
			}
			b.wantState("t:1", 0, test.want)
			if n := one[int](b, `select count(*) from evidence where source = 'look-up' and settled = $1`, test.settles); n != 1 {
				t.Errorf("%d pieces of evidence", n)
			}
			if test.meantime == nil {
				b.holds()
			}
		})
	}
}

// twice leaves an earlier attempt in doubt.
func (b *bench) twice() { b.settle(resent(b.claimOne(me), me)) }

// redecided sends again, as somebody decided while the provider was asked.
func (b *bench) redecided() {
	b.exec(`update intents set state = 'pending', doubt = false`)
	b.exec(`update agenda set kind = 'due', at = now()`)
	b.claimOne(them)
}
