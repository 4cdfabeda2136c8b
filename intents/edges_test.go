package intents

import (
	"slices"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

func TestEdgesHoldTheInvariants(t *testing.T) {
	edges := Edges()
	out := map[State][]State{}
	for i, e := range edges {
		if slices.ContainsFunc(edges[:i], func(o Edge) bool { return o.From == e.From && o.To == e.To }) {
			t.Errorf("%s → %s stands twice", e.From, e.To)
		}
		if _, ok := ParseState(string(e.To)); !ok || e.Cause == "" {
			t.Errorf("%+v leads nowhere or has no cause", e)
		}
		out[e.From] = append(out[e.From], e.To)
		if e.From.Terminal() && !(e.From == Exhausted && e.To == Pending) {
			t.Errorf("%s → %s leaves a terminal state", e.From, e.To)
		}
	}
	reached := []State{""}
	for i := 0; i < len(reached); i++ {
		for _, to := range out[reached[i]] {
			if !slices.Contains(reached, to) {
				reached = append(reached, to)
			}
		}
	}
	for _, s := range States() {
		if !slices.Contains(reached, s) {
			t.Errorf("%s is never reached", s)
		}
		if s.Terminal() == slices.ContainsFunc(out[s], State.Terminal) {
			t.Errorf("%s is terminal: %v, and leads to %v", s, s.Terminal(), out[s])
		}
	}
	if Leads(Succeeded, Pending) || !Leads(Pending, Sending) || Leads("", Succeeded) {
		t.Error("Leads does not read the table")
	}
}

// Only a claim's owner proposes transitions, so each constructor leads out of SENDING.
func TestEveryConstructorIsAnEdge(t *testing.T) {
	o := outcome("unknown")
	for name, tr := range map[string]Transition{
		"Succeed": Succeed(outcome("accepted")), "Reject": Reject(outcome("refused")), "Retry": Retry(outcome("not-sent"), time.Second, true),
		"Resend": Resend(o, time.Second, true), "Park": Park("x", "y", true), "Exhaust": Exhaust("x", "y"), "Expire": Expire(), "HandBack": HandBack("x"),
	} {
		if !Leads(Sending, tr.To()) {
			t.Errorf("%s leads from sending to %q", name, tr.To())
		}
	}
	if (Transition{}).To() != "" {
		t.Error("the zero transition proposes a state")
	}
}

func TestConstructorsKeepWhatTheyAreGiven(t *testing.T) {
	got := Succeed(outcome("accepted"))
	if got.ProviderID() != "provider-1" || got.Code() != "250" || got.Message() != "taken" || !got.Counted() || got.Doubt() {
		t.Errorf("Succeed: %+v", got)
	}
	if got := Reject(channels.OutcomeDeadRecipient("410", "gone")); !got.DeadRecipient() || got.Code() != "410" || !got.Counted() {
		t.Errorf("Reject: %+v", got)
	}
	if got := Retry(outcome("not-sent"), time.Minute, false); got.Delay() != time.Minute || got.Counted() || got.Doubt() || got.PossibleDuplicate() {
		t.Errorf("Retry: %+v", got)
	}
	if got := Resend(outcome("unknown"), time.Minute, true); !got.Doubt() || !got.PossibleDuplicate() || got.Delay() != time.Minute {
		t.Errorf("Resend: %+v", got)
	}
	if got := Park("a", "b", false); !got.Doubt() || got.PossibleDuplicate() || got.Counted() || got.Code() != "a" || got.Message() != "b" {
		t.Errorf("Park: %+v", got)
	}
	if got := HandBack("late"); got.Doubt() || got.Counted() || got.Delay() != 0 || got.PossibleDuplicate() {
		t.Errorf("HandBack: %+v", got)
	}
}

func TestStatesAndPriorities(t *testing.T) {
	for _, s := range States() {
		if got, ok := ParseState(string(s)); !ok || got != s {
			t.Errorf("ParseState(%q) = %q, %v", s, got, ok)
		}
	}
	if _, ok := ParseState("SENDING"); ok {
		t.Error("a state has two spellings")
	}
	if State("").Terminal() {
		t.Error("no state is terminal")
	}
	for p, want := range map[Priority]string{High: "high", Normal: "normal", Low: "low", -3: "high", 9: "low"} {
		if p.String() != want {
			t.Errorf("%d is %q, want %q", p, p, want)
		}
	}
}
