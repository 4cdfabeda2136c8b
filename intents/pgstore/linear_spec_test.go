package pgstore_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// request is one call as it concerns one key, for the specification below.
type request struct {
	what     string // admit, read, cancel, claim, take over, settle, witness, pass
	key      dedup.Key
	revision int32
	owner    string

	admission  intents.Admission  // admit
	settlement intents.Settlement // settle, witness
	time       time.Duration      // pass
	again      bool               // claim: a wish that was asked for before, and whose reply was lost
}

// reply is what the caller was told. Of a call whose reply was lost nobody knows whether it happened, and it may still happen.
type reply struct {
	lost      bool
	tries     int             // admit: more than one may have cost the claim
	verdict   intents.Verdict // admit
	claim     *intents.Claim  // claim, take over
	settled   intents.Settled // settle, witness
	found     bool            // read, cancel
	intent    intents.Intent  // read, cancel
	cancelled bool            // cancel
}

// sequential is the specification: what one call after the other would be told about one key. It is the model that the random walk
// compares the store with. Ids are the store's: the first that anybody is told is that of the intent.
func sequential() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return intenttest.Model{} },
		Equal:     func(a, b any) bool { return reflect.DeepEqual(a, b) },
		Step: func(state, input, output any) (bool, any) {
			m := copyOf(state.(intenttest.Model))
			ok := step(&m, input.(request), output.(reply))
			m.Events = nil
			return ok, m
		},
		DescribeOperation: func(input, output any) string { return describe(input.(request), output.(reply)) },
		DescribeState:     func(state any) string { return describeState(state.(intenttest.Model)) },
	}
}

func byKey(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	index := map[dedup.Key]int{}
	for _, op := range history {
		key := op.Input.(request).key
		n, ok := index[key]
		if !ok {
			n, parts = len(parts), append(parts, nil)
			index[key] = n
		}
		parts[n] = append(parts[n], op)
	}
	return parts
}

func copyOf(m intenttest.Model) intenttest.Model {
	m.Intents = slices.Clone(m.Intents)
	for n, i := range m.Intents {
		c := *i
		c.Heard = slices.Clone(i.Heard)
		m.Intents[n] = &c
	}
	return m
}

// step makes a call on the model; false if it cannot have been told this.
func step(m *intenttest.Model, a request, t reply) bool {
	var in *intenttest.Modelled
	for _, i := range m.Intents {
		if i.Revision == a.revision {
			in = i
		}
	}
	switch a.what {
	case "pass":
		m.Now += a.time
		return true
	case "admit":
		return stepAdmit(m, a, t)
	case "claim":
		return stepClaim(m, a, t)
	case "take over":
		return stepTakeOver(m, a, t)
	}
	if in == nil {
		return t.lost || !t.found && (a.what == "read" || a.what == "cancel")
	}
	switch a.what {
	case "read":
		return t.lost || t.found && named(in, t.intent.ID) && stands(in, t.intent)
	case "cancel":
		cancelled := m.Cancel(in)
		return t.lost || t.found && cancelled == t.cancelled && named(in, t.intent.ID) && in.State == t.intent.State
	case "settle":
		fenced := m.Settle(in, a.settlement)
		return t.lost || t.settled == intents.Settled{ID: a.settlement.ID, State: in.State, Fenced: fenced} && named(in, t.settled.ID)
	case "witness":
		fenced := m.Witness(in, a.settlement)
		return t.lost || t.settled == intents.Settled{ID: a.settlement.ID, State: in.State, Fenced: fenced} && named(in, t.settled.ID)
	}
	panic("no step " + a.what)
}

// named reports whether this is the intent's id, as far as it was told before.
func named(in *intenttest.Modelled, id uuid.UUID) bool {
	if in.ID == uuid.Nil {
		in.ID = id
	}
	return in.ID == id
}

func stands(in *intenttest.Modelled, i intents.Intent) bool {
	return in.State == i.State && in.Generation == i.Generation && in.Doubt == i.Doubt && in.Attempts == i.Attempts &&
		in.Takeovers == i.Takeovers && in.Duplicates == i.PossibleDuplicates && in.Superseded == (i.SupersededBy != uuid.Nil) &&
		(in.State != intents.Sending || in.Owner == i.Owner)
}

func stepAdmit(m *intenttest.Model, a request, t reply) bool {
	kind := m.Admit(a.admission, 0, uuid.Nil)
	same := slices.IndexFunc(m.Intents, func(i *intenttest.Modelled) bool { return i.Revision == a.revision })
	if same < 0 { // superseded
		return t.lost || t.verdict.Kind == kind
	}
	in := m.Intents[same]
	claimed := kind == intents.Accepted && in.State == intents.Sending
	if claimed {
		in.Owner = a.owner
	}
	switch v := t.verdict; {
	case t.lost:
		return true
	case v.Kind != kind || !named(in, v.Intent):
		return false
	case kind == intents.Accepted:
		// Another try can come when the claim is over, or find that it was made by an earlier one.
		return (v.Claim != nil) == claimed || v.Claim == nil && t.tries > 1
	default:
		return v.State == in.State
	}
}

func stepClaim(m *intenttest.Model, a request, t reply) bool {
	able := m.Claimable()
	switch {
	case t.lost:
		for _, in := range able {
			m.Claim(in, a.owner)
		}
		return true
	case len(able) == 1 && able[0].Revision == a.revision && able[0].Generation+1 == t.claim.Generation:
		m.Claim(able[0], a.owner)
		return named(able[0], t.claim.ID) && able[0].Doubt == t.claim.Doubt && able[0].Attempts == t.claim.Attempts
	}
	for _, in := range m.Intents {
		if a.again && in.Revision == a.revision && in.State == intents.Sending && in.Owner == a.owner && !in.TakenOver &&
			in.Generation == t.claim.Generation && in.Lease > m.Now {
			in.Lease = m.Now + intenttest.Lease
			return named(in, t.claim.ID)
		}
	}
	return false
}

func stepTakeOver(m *intenttest.Model, a request, t reply) bool {
	over := m.Over()
	if t.lost {
		for _, in := range over {
			m.TakeOver(in, a.owner)
		}
		return true
	}
	for _, in := range over {
		if in.Revision == a.revision && in.Generation+1 == t.claim.Generation {
			m.TakeOver(in, a.owner)
			return named(in, t.claim.ID) && in.Takeovers == t.claim.Takeovers && t.claim.Doubt
		}
	}
	for _, in := range m.Unsettled(a.owner) {
		if in.Revision == a.revision && in.Generation == t.claim.Generation {
			return named(in, t.claim.ID)
		}
	}
	return false
}

func describe(a request, t reply) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s %d by %s", a.what, a.key, a.revision, a.owner)
	switch a.what {
	case "admit":
		fmt.Fprintf(&out, " %s now=%v", a.admission.Meaning.Content, a.admission.ClaimNow)
	case "settle":
		fmt.Fprintf(&out, " generation %d as %s", a.settlement.Generation, a.settlement.Transition.To())
	case "witness":
		fmt.Fprintf(&out, " generation %d: %s", a.settlement.Generation, a.settlement.Outcome.Result())
	}
	switch {
	case t.lost:
		out.WriteString(" -> lost")
	case a.what == "admit":
		fmt.Fprintf(&out, " -> %s %s claim=%v tries=%d", t.verdict.Kind, t.verdict.State, t.verdict.Claim != nil, t.tries)
	case a.what == "read", a.what == "cancel":
		fmt.Fprintf(&out, " -> %v %s generation %d by %s, attempts %d, takeovers %d, doubt %v, cancelled %v", t.found, t.intent.State, t.intent.Generation,
			t.intent.Owner, t.intent.Attempts, t.intent.Takeovers, t.intent.Doubt, t.cancelled)
	case t.claim != nil:
		fmt.Fprintf(&out, " -> generation %d", t.claim.Generation)
	case a.what != "pass":
		fmt.Fprintf(&out, " -> %s fenced=%v", t.settled.State, t.settled.Fenced)
	}
	return out.String()
}

func describeState(m intenttest.Model) string {
	var out []string
	for _, i := range m.Intents {
		out = append(out, fmt.Sprintf("%d: %s generation %d by %s", i.Revision, i.State, i.Generation, i.Owner))
	}
	return strings.Join(out, "; ")
}
