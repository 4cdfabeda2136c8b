package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
)

// Each fact is counted as what became of it.
func TestTallyCountsWhatBecameOfEachFact(t *testing.T) {
	t.Parallel()
	p := startPeers(t, manners{timeout: time.Second})
	at1 := func(owner string, begin int) admin.Attempt {
		a := attempt(1, begin, begin+20, "unknown")
		a.Owner = owner
		return a
	}
	name := func(n string) identity { return identity{"shop", "mail", "receipt:" + n, 0} }
	replied, settling, sending, nameless, odd := name("reply"), name("settling"), name("sending"), name("nameless"), name("odd")
	fine, twice, gone, never, wrong := name("fine"), name("twice"), name("gone"), name("never"), name("wrong")
	lostReply := accepted(replied, 10)
	lostReply.mishap = replyLost
	a := &account{evidence: evidence{effects: []effect{
		accepted(fine, 10), accepted(twice, 10), accepted(twice, 30), lostReply, accepted(settling, 10), accepted(wrong, 10), accepted(odd, 10),
	}}}
	a.intents = []admin.IntentDetail{
		intent("1", fine, "duplicate-visible", "succeeded", 1), intent("2", twice, "duplicate-visible", "succeeded", 1),
		intent("3", gone, "duplicate-visible", "succeeded", 1), // and the receiver never had it; of never there is not even an intent
		intent("4", wrong, "duplicate-visible", "expired", 1),
		intent("5", replied, "duplicate-visible", "unknown", 1, at1("alive", 10)),
		intent("6", settling, "duplicate-visible", "unknown", 2, at1("dead", 10)),
		intent("7", sending, "duplicate-visible", "unknown", 2, at1("dead", 11)),
		intent("8", nameless, "duplicate-visible", "unknown", 2, at1("never told its name", 20)),
		intent("9", odd, "duplicate-visible", "unknown", 2, at1("dead", 40)), // claimed after its owner's death
	}
	a.sort()
	d := &duel{channel: mailChannel, deaths: map[string][]time.Time{"dead": {at(12)}, "": {at(21)}}}
	d.peers = p
	d.producers = &producers{}
	for _, of := range []identity{fine, twice, gone, never, wrong, replied, settling, sending, nameless, odd} {
		d.producers.plan = append(d.producers.plan, telling{of: of}, telling{of: of})
	}
	var got tally
	got.weigh(a, d)
	if got.lost != 2 || got.twice != 1 || got.wrong != 1 || got.unknown != 5 {
		t.Errorf("%d lost, %d twice, %d wrong, %d unknown; want 2, 1, 1 and 5", got.lost, got.twice, got.wrong, got.unknown)
	}
	if got.byReply != 1 || got.bySettling != 1 || got.bySending != 2 || got.otherwise != 1 {
		t.Errorf("unknown by reply %d, settling %d, sending %d, otherwise %d; want 1, 1, 2 and 1", got.byReply, got.bySettling, got.bySending, got.otherwise)
	}
	if len(got.violations) != 5 {
		t.Errorf("%d violations, want those of the lost, the one that came twice, the wrong and the odd one: %v", len(got.violations), got.violations)
	}
}

// Of the facts 30 % are told twice or three times, half of them each.
func TestReceiptsAreToldAsTheConditionsSay(t *testing.T) {
	t.Parallel()
	p := startPeers(t, manners{timeout: time.Second})
	list := planReceipts(p, rand.New(rand.NewPCG(1, 1)), mailChannel, 2000)
	times := map[identity]int{}
	for _, t := range list {
		times[t.of]++
	}
	byTimes := map[int]int{}
	for _, n := range times {
		byTimes[n]++
	}
	if byTimes[1] != 1400 || byTimes[2] != 300 || byTimes[3] != 300 {
		t.Errorf("told once, twice, three times: %v; want 1400, 300, 300", byTimes)
	}
}
