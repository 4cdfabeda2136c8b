package intents

import "testing"

func TestErasureEndsNothingThatMayBeOnItsWay(t *testing.T) {
	for _, c := range []struct {
		state         State
		doubt, cancel bool
		to            State
		forget        bool
	}{
		{Succeeded, false, false, Succeeded, true},
		{Rejected, false, true, Rejected, true},
		{Exhausted, false, false, Exhausted, true},
		{UnknownState, true, false, UnknownState, true},
		{Pending, false, false, Pending, false},
		{Pending, true, false, Pending, false},
		{Pending, false, true, Cancelled, true},
		{Pending, true, true, UnknownState, true}, // it may have been sent
		{Sending, false, true, Sending, false},
		{Sending, true, true, Sending, false},
		{"held", false, true, "held", false}, // a newer version's
	} {
		to, forget := Erase(c.state, c.doubt, c.cancel)
		if to != c.to || forget != c.forget {
			t.Errorf("%s, doubt %v, cancel %v: %s, %v; want %s, %v", c.state, c.doubt, c.cancel, to, forget, c.to, c.forget)
		}
		if to != c.state && !Leads(c.state, to) {
			t.Errorf("there is no way from %s to %s", c.state, to)
		}
	}
}

// What was erased is never sent, and where it may have been, nobody says that it was not.
func TestErasedContentIsNotSent(t *testing.T) {
	for _, doubt := range []bool{false, true} {
		p, c := plain("keyed"), plainClaim()
		c.Guarantee, c.Doubt, c.Forgotten = "keyed", doubt, true
		c.Trust = NewTrust(origin, LeaseFor(p.Contract.AttemptTimeout), p.Contract.AttemptTimeout)
		instead, ok := BeforeSend(p, c, origin, origin)
		want := map[bool]State{false: Exhausted, true: UnknownState}[doubt]
		if ok || instead.To() != want {
			t.Errorf("doubt %v: may be sent %v, else %s; want %s", doubt, ok, instead.To(), want)
		}
		c.Forgotten = false
		if _, ok := BeforeSend(p, c, origin, origin); !ok {
			t.Errorf("doubt %v: with content it may be sent", doubt)
		}
	}
}
