package pgstore_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// broken are histories of one fact, one call after the other. With the last call as it ought to be they fit the specification; with what a
// broken store would say there, they do not. So the check can fail.
func broken() map[string]struct{ before, right, wrong []call } {
	id, other, owner := uuid.New(), uuid.New(), me
	admit := func(revision int32, text string, v intents.Verdict) call {
		a := ask("k:0", revision, intenttest.Text(text))
		return call{request{what: "admit", key: "k:0", revision: revision, owner: owner, admission: a}, reply{verdict: v, tries: 1}}
	}
	accepted := admit(0, "a", intents.Verdict{Kind: intents.Accepted, Intent: id})
	c := func(generation int32) intents.Claim {
		return intents.Claim{ID: id, Generation: generation, Identity: ask("k:0", 0).Identity}
	}
	reach := func(what, by string, c intents.Claim) call {
		return call{request{what: what, key: "k:0", revision: c.Identity.Revision, owner: by}, reply{claim: &c}}
	}
	settle := func(st intents.Settlement, out intents.Settled) call {
		out.ID = st.ID
		return call{request{what: "settle", key: "k:0", owner: st.Owner, settlement: st}, reply{settled: out}}
	}
	read := func(i intents.Intent) call {
		i.ID = id
		return call{request{what: "read", key: "k:0"}, reply{found: true, intent: i}}
	}
	pass := call{request{what: "pass", key: "k:0", time: 2 * intenttest.Lease}, reply{}}
	taken := c(2)
	taken.Doubt, taken.Takeovers = true, 1
	claimed := []call{accepted, reach("claim", me, c(1))}
	over := append(claimed[:2:2], pass, reach("take over", them, taken))
	done := append(claimed[:2:2], settle(succeeded(c(1), me), intents.Settled{State: intents.Succeeded}))
	newer := admit(1, "b", intents.Verdict{Kind: intents.Accepted, Intent: other})
	newest := intents.Claim{ID: other, Generation: 1, Identity: ask("k:0", 1).Identity}
	return map[string]struct{ before, right, wrong []call }{
		"a key is taken for new twice": {
			[]call{accepted},
			[]call{admit(0, "a", intents.Verdict{Kind: intents.Duplicate, Intent: id, State: intents.Pending})},
			[]call{admit(0, "a", intents.Verdict{Kind: intents.Accepted, Intent: other})},
		},
		"a conflict is called a duplicate": {
			[]call{accepted},
			[]call{admit(0, "b", intents.Verdict{Kind: intents.Conflict, Intent: id, State: intents.Pending})},
			[]call{admit(0, "b", intents.Verdict{Kind: intents.Duplicate, Intent: id, State: intents.Pending})},
		},
		"a duplicate is another intent": {
			[]call{accepted},
			[]call{admit(0, "a", intents.Verdict{Kind: intents.Duplicate, Intent: id, State: intents.Pending})},
			[]call{admit(0, "a", intents.Verdict{Kind: intents.Duplicate, Intent: other, State: intents.Pending})},
		},
		"one generation is claimed twice": {claimed, nil, []call{reach("claim", them, c(1))}},
		"a lease is taken over early":     {claimed, []call{pass, reach("take over", them, taken)}, []call{reach("take over", them, taken)}},
		"a late settlement is written": {
			over,
			[]call{settle(succeeded(c(1), me), intents.Settled{State: intents.Sending, Fenced: true})},
			[]call{settle(succeeded(c(1), me), intents.Settled{State: intents.Succeeded})},
		},
		"a read is stale": {
			done,
			[]call{read(intents.Intent{State: intents.Succeeded, Generation: 1, Attempts: 1})},
			[]call{read(intents.Intent{State: intents.Sending, Generation: 1, Owner: me})},
		},
		"what is done is claimed again":              {done, nil, []call{reach("claim", them, c(2))}},
		"a newer one is claimed beside an older one": {append(claimed[:2:2], newer), nil, []call{reach("claim", them, newest)}},
		"an older one is claimed after a newer one": {
			[]call{accepted, newer}, []call{reach("claim", them, newest)}, []call{reach("claim", them, c(1))},
		},
	}
}

type call struct {
	request
	reply
}

// inTurn makes a history of calls that do not overlap.
func inTurn(calls ...call) (history []porcupine.Operation) {
	for n, c := range calls {
		history = append(history, porcupine.Operation{Input: c.request, Output: c.reply, Call: int64(2 * n), Return: int64(2*n + 1)})
	}
	return history
}

func TestBrokenHistoriesAreFoundOut(t *testing.T) {
	for name, h := range broken() {
		if right := append(h.before[:len(h.before):len(h.before)], h.right...); !porcupine.CheckOperations(sequential(), inTurn(right...)) {
			t.Errorf("%s: found out without it", name)
		}
		if wrong := append(h.before[:len(h.before):len(h.before)], h.wrong...); porcupine.CheckOperations(sequential(), inTurn(wrong...)) {
			t.Errorf("not found out: %s", name)
		}
	}
}

// A call that was cut off may have happened at once, later, or never.
func TestLostCallMayHappenLater(t *testing.T) {
	id := uuid.New()
	first := request{what: "admit", key: "k:0", owner: me, admission: ask("k:0", 0)}
	read := request{what: "read", key: "k:0"}
	there, notThere := reply{found: true, intent: intents.Intent{ID: id, State: intents.Pending}}, reply{}
	history := func(reads ...reply) (h []porcupine.Operation) {
		calls := []call{{first, reply{lost: true}}}
		for _, r := range reads {
			calls = append(calls, call{read, r})
		}
		h = inTurn(calls...)
		h[0].Return = 1 << 40
		return h
	}
	for name, reads := range map[string][]reply{"at once": {there, there}, "later": {notThere, there}, "never": {notThere, notThere}} {
		if !porcupine.CheckOperations(sequential(), history(reads...)) {
			t.Errorf("%s: found out", name)
		}
	}
	if porcupine.CheckOperations(sequential(), history(there, notThere)) {
		t.Error("it was there, and then it was not")
	}
}
