package intents

import (
	"fmt"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// origin is "now" on the database's clock in these tests.
var origin = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// situation is everything that a decision may depend on, each in a few characteristic values.
type situation struct {
	outcome   string
	guarantee channels.Guarantee
	admitted  channels.Guarantee // under which it was admitted
	hold      bool               // replaceable: the operator chose to hold
	doubt     bool               // an earlier attempt may have been applied
	window    string             // of the key, at the next attempt: "open", "closes" during the back-off, "closed"
	scope     bool               // the key scope changed
	expiry    string             // "never", "later", "soon" (during the back-off), "past"
	last      bool               // this was the last attempt allowed
	old       string             // "young", "ages" during the back-off, "old"
}

const (
	backoffNow = 3 * time.Second / 4 // of no attempts and jitter 0.5: half of 1 s, and half of the other half
	window     = time.Hour
	maxAge     = 2 * time.Hour
)

func (s situation) build() (Policy, Claim, channels.Outcome) {
	settings := channels.Settings{MaxAttempts: 3, MaxAge: maxAge, OnUnknown: channels.OnUnknownResend}
	if s.hold {
		settings.OnUnknown = channels.OnUnknownHold
	}
	p := NewPolicy(channels.Contract{Guarantee: s.guarantee, KeyWindow: window, KeyScope: "now", AttemptTimeout: time.Minute}, settings)
	p.BackoffBase, p.BackoffMax = time.Second, time.Second
	c := Claim{Guarantee: s.admitted, KeyScope: "now", Doubt: s.doubt, ClaimedAt: origin, DueSince: origin, FirstUsedAt: origin}
	if s.scope {
		c.KeyScope = "before"
	}
	closing := origin.Add(p.KeyMargin - window) // a key first used then may no longer be repeated at origin
	switch s.window {
	case "closes":
		c.FirstUsedAt = closing.Add(backoffNow / 2)
	case "closed":
		c.FirstUsedAt = closing
	}
	switch s.expiry {
	case "later":
		c.ExpiresAt = origin.Add(time.Hour)
	case "soon":
		c.ExpiresAt = origin.Add(backoffNow)
	case "past":
		c.ExpiresAt = origin
	}
	if s.last {
		c.Attempts = 2
	}
	switch s.old {
	case "ages":
		c.DueSince = origin.Add(backoffNow/2 - maxAge)
	case "old":
		c.DueSince = origin.Add(-maxAge - time.Microsecond)
	}
	return p, c, outcome(s.outcome)
}

var guarantees = []channels.Guarantee{channels.Keyed, channels.Replaceable, channels.DuplicateVisible}

func situations(visit func(situation)) {
	for _, o := range []string{"unknown", "accepted", "refused", "not-sent", "throttled", "misconfigured"} {
		for pair := range 9 {
			g, admitted := guarantees[pair%3], guarantees[pair/3]
			for _, w := range []string{"open", "closes", "closed"} {
				for _, e := range []string{"never", "later", "soon", "past"} {
					for _, old := range []string{"young", "ages", "old"} {
						for bits := range 16 {
							visit(situation{o, g, admitted, bits&1 > 0, bits&2 > 0, w, bits&4 > 0, e, bits&8 > 0, old})
						}
					}
				}
			}
		}
	}
}

// repeatable says, as protocol.md section 4 does, whether an effect that may have happened may be made again.
func (s situation) repeatable(windowOpen bool) bool {
	if s.guarantee != s.admitted {
		return false // its bytes were made for another contract than the one that is left
	}
	switch s.guarantee {
	case channels.Keyed:
		return windowOpen && !s.scope
	case channels.Replaceable:
		return !s.hold
	}
	return false
}

// wanted is the table of protocol.md section 4 in one rule: what may have happened is made again only where that is harmless, and otherwise
// UNKNOWN; what provably did not is tried again, or ends by its name.
func (s situation) wanted() State {
	ends := s.expiry == "soon" || s.expiry == "past"
	usedUp := (s.last || s.old != "young") && s.outcome != "misconfigured"
	switch {
	case s.outcome == "accepted":
		return Succeeded
	case s.outcome == "refused" && s.doubt:
		return UnknownState
	case s.outcome == "refused":
		return Rejected
	case s.outcome == "unknown" || s.doubt:
		if s.repeatable(s.window == "open") && !ends && !usedUp {
			return Pending
		}
		return UnknownState
	case ends:
		return Expired
	case usedUp:
		return Exhausted
	}
	return Pending
}

func TestNextIsTheContractTable(t *testing.T) {
	n := 0
	situations(func(s situation) {
		n++
		p, c, o := s.build()
		got := Next(p, c, o, origin, 0.5)
		if got.To() != s.wanted() {
			t.Errorf("%+v: %s (%s), want %s", s, got.To(), got.Code(), s.wanted())
		}
		if !Leads(Sending, got.To()) {
			t.Errorf("%+v: sending → %s is no edge", s, got.To())
		}
		if counted := s.outcome != "misconfigured"; got.Counted() != counted {
			t.Errorf("%+v: counted %v", s, got.Counted())
		}
		if doubt := got.To() == UnknownState || got.To() == Pending && s.outcome == "unknown"; got.Doubt() != doubt {
			t.Errorf("%+v: %s, doubt %v", s, got.To(), got.Doubt())
		}
		if again := got.To() == Pending && s.outcome == "unknown"; got.PossibleDuplicate() != again {
			t.Errorf("%+v: possible duplicate %v", s, got.PossibleDuplicate())
		}
		if got.To() == Pending && got.Delay() != backoffNow {
			t.Errorf("%+v: tried again after %v", s, got.Delay())
		}
		if got.Code() == "" && got.To() != Succeeded {
			t.Errorf("%+v: %s without a code", s, got.To())
		}
	})
	if n != 6*9*3*4*3*16 {
		t.Errorf("%d situations", n)
	}
}

// A lease that ran out is an unknown outcome that uses up no attempt; nothing is waited for.
func TestAfterLeaseIsUnknownUncounted(t *testing.T) {
	situations(func(s situation) {
		if s.outcome != "unknown" {
			return
		}
		p, c, _ := s.build()
		want := UnknownState
		if s.repeatable(s.window != "closed") && s.expiry != "past" && s.old != "old" {
			want = Pending
		}
		got := AfterLease(p, c, origin)
		if got.To() != want || got.Counted() || !got.Doubt() || got.Delay() != 0 || got.Code() == "" {
			t.Errorf("%+v: %s (%s), counted %v, doubt %v, after %v; want %s", s, got.To(), got.Code(), got.Counted(), got.Doubt(), got.Delay(), want)
		}
	})
}

func TestBeforeSend(t *testing.T) {
	local := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // this host's clock is years behind, and that is no matter
	situations(func(s situation) {
		if s.outcome != "unknown" {
			return
		}
		p, c, _ := s.build()
		c.Trust = NewTrust(local, LeaseFor(time.Minute), time.Minute)
		want := State("") // begin
		switch forbidden := s.doubt && !s.repeatable(s.window != "closed"); {
		case s.expiry == "past" && s.doubt, forbidden:
			want = UnknownState
		case s.expiry == "past":
			want = Expired
		}
		instead, ok := BeforeSend(p, c, origin, local)
		if ok != (want == "") || instead.To() != want || instead.Counted() {
			t.Errorf("%+v: begins %v, instead %s (counted %v); want %q", s, ok, instead.To(), instead.Counted(), want)
		}
		late, ok := BeforeSend(p, c, origin, c.Trust.StartBy)
		if ok || late.To() != Pending || late.Doubt() || late.Counted() {
			t.Errorf("%+v: begins %v after its trust was over, instead %s", s, ok, late.To())
		}
	})
}

// W5: deaths are counted apart from attempts. Five of them leave all three attempts; they have a bound of their own.
func TestW5DeathsAreCountedApart(t *testing.T) {
	p, c, _ := situation{outcome: "unknown", guarantee: channels.Keyed, admitted: channels.Keyed, window: "open", expiry: "never", old: "young"}.build()
	for c.Takeovers < 5 {
		c.Takeovers++
		if got := AfterLease(p, c, origin); got.To() != Pending || got.Counted() {
			t.Fatalf("death %d: %s, counted %v", c.Takeovers, got.To(), got.Counted())
		}
	}
	for attempt := range 3 {
		got := Next(p, c, outcome("not-sent"), origin, 0)
		if want := map[bool]State{true: Exhausted, false: Pending}[attempt == 2]; got.To() != want || !got.Counted() {
			t.Errorf("attempt %d: %s, want %s", attempt+1, got.To(), want)
		}
		c.Attempts++
	}
	c.Takeovers = p.MaxTakeovers
	if got := AfterLease(p, c, origin); got.To() != Pending {
		t.Errorf("the last death allowed: %s", got.To())
	}
	c.Takeovers++
	if got := AfterLease(p, c, origin); got.To() != UnknownState || got.Code() != "takeovers-used-up" {
		t.Errorf("one death more: %s (%s)", got.To(), got.Code())
	}
	p.Contract.Guarantee, c.Takeovers = channels.DuplicateVisible, 1
	if got := AfterLease(p, c, origin); got.To() != UnknownState {
		t.Errorf("a death where a repeat would be seen: %s", got.To())
	}
}

// Codes and sentences are shown to operators and counted in metrics.
func TestWhyItEnded(t *testing.T) {
	base := situation{guarantee: channels.Keyed, admitted: channels.Keyed, window: "open", expiry: "never", old: "young"}
	for code, s := range map[string]situation{
		"key-window-over":           with(base, func(s *situation) { s.outcome, s.window = "unknown", "closed" }),
		"key-scope-changed":         with(base, func(s *situation) { s.outcome, s.scope = "unknown", true }),
		"eof":                       with(base, func(s *situation) { s.outcome, s.guarantee = "unknown", channels.DuplicateVisible }),
		"expired-unknown":           with(base, func(s *situation) { s.outcome, s.expiry = "unknown", "soon" }),
		"attempts-used-up":          with(base, func(s *situation) { s.outcome, s.last = "not-sent", true }),
		"time-used-up":              with(base, func(s *situation) { s.outcome, s.old = "throttled", "old" }),
		"expired":                   with(base, func(s *situation) { s.outcome, s.expiry = "not-sent", "soon" }),
		"expired-in-doubt":          with(base, func(s *situation) { s.outcome, s.expiry, s.doubt = "not-sent", "soon", true }),
		"attempts-used-up-in-doubt": with(base, func(s *situation) { s.outcome, s.last, s.doubt = "not-sent", true, true }),
		"refused-in-doubt":          with(base, func(s *situation) { s.outcome, s.doubt = "refused", true }),
		"550":                       with(base, func(s *situation) { s.outcome = "refused" }),
		"250":                       with(base, func(s *situation) { s.outcome = "accepted" }),
		"dial":                      with(base, func(s *situation) { s.outcome = "not-sent" }),
	} {
		p, c, o := s.build()
		if got := Next(p, c, o, origin, 0.5); got.Code() != code || got.Message() == "" {
			t.Errorf("%+v: code %q (%s), want %q", s, got.Code(), got.Message(), code)
		}
	}
}

func with(s situation, change func(*situation)) situation { change(&s); return s }

func TestProvidersWaitIsKept(t *testing.T) {
	p, c, _ := situation{guarantee: channels.Keyed, admitted: channels.Keyed, window: "open", expiry: "never", old: "young"}.build()
	slow := channels.OutcomeThrottled(10*time.Minute, "429", "")
	unclear := channels.OutcomeUnknown(channels.PhaseReply, "503", "").WithWait(10 * time.Minute)
	for _, o := range []channels.Outcome{slow, unclear} {
		if got := Next(p, c, o, origin, 0.5); got.To() != Pending || got.Delay() != 10*time.Minute {
			t.Errorf("%s: %s after %v, want 10 min", o.Code(), got.To(), got.Delay())
		}
	}
	c.ExpiresAt = origin.Add(10 * time.Minute)
	if got := Next(p, c, slow, origin, 0.5); got.To() != Expired {
		t.Errorf("the wait outlasts expires_at: %s", got.To())
	}
	c.ExpiresAt, c.DueSince = time.Time{}, origin.Add(-maxAge+time.Minute)
	if got := Next(p, c, slow, origin, 0.5); got.To() != Exhausted {
		t.Errorf("the wait outlasts MAX_AGE: %s", got.To())
	}
	p.Settings.MaxAge = 0
	if got := Next(p, c, slow, origin, 0.5); got.To() != Pending {
		t.Errorf("without MAX_AGE: %s", got.To())
	}
}

func TestBackoffGrowsWithinItsBounds(t *testing.T) {
	p := NewPolicy(channels.Contract{}, channels.Settings{})
	for attempts, want := range map[int]time.Duration{
		0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 8: 256 * time.Second, 9: 5 * time.Minute, 40: 5 * time.Minute, 1 << 40: 5 * time.Minute,
	} {
		least, most := p.backoff(attempts, 0), p.backoff(attempts, 0.999999)
		if least != want/2 || most < want-want/1000 || most >= want {
			t.Errorf("%d attempts: from %v to %v, want from %v to just below %v", attempts, least, most, want/2, want)
		}
	}
	p.BackoffBase, p.BackoffMax = time.Hour, time.Minute
	if got := p.backoff(3, 0); got != 30*time.Second {
		t.Errorf("a base above the bound gives %v", got)
	}
	p.BackoffBase, p.BackoffMax = 1<<62, 1<<63-1
	if got := p.backoff(30, 0.5); got <= 0 {
		t.Errorf("overflow: %v", got)
	}
}

// A resend that begins just inside the margin is over before the provider forgets the key.
func TestKeyMarginCoversAnAttempt(t *testing.T) {
	for _, tc := range []struct{ window, timeout, want time.Duration }{
		{24 * time.Hour, 30 * time.Second, 5 * time.Minute},
		{15 * time.Minute, 30 * time.Second, 90 * time.Second},
		{2 * time.Minute, 30 * time.Second, 30 * time.Second},
		{30 * time.Second, time.Minute, time.Minute}, // never resent: no attempt is short enough
	} {
		p := NewPolicy(channels.Contract{Guarantee: channels.Keyed, KeyWindow: tc.window, AttemptTimeout: tc.timeout}, channels.Settings{MaxAttempts: 9})
		if p.KeyMargin != tc.want {
			t.Errorf("window %v, attempts of %v: margin %v, want %v", tc.window, tc.timeout, p.KeyMargin, tc.want)
		}
		c := Claim{Guarantee: channels.Keyed, FirstUsedAt: origin, Doubt: true}
		last := origin.Add(tc.window - p.KeyMargin)
		if code, _ := p.repeatForbidden(c, last); code != "key-window-over" {
			t.Errorf("at the margin of %v: %q", tc.window, code)
		}
		if code, _ := p.repeatForbidden(c, last.Add(-time.Microsecond)); code != "" {
			t.Errorf("before the margin of %v: %q", tc.window, code)
		}
	}
}

func ExampleNext() {
	p := NewPolicy(
		channels.Contract{Guarantee: channels.DuplicateVisible, AttemptTimeout: 30 * time.Second},
		channels.Settings{MaxAttempts: 8, MaxAge: 24 * time.Hour},
	)
	lost := channels.OutcomeUnknown(channels.PhaseCommitted, "eof", "the connection broke after the final dot")
	t := Next(p, Claim{Attempts: 0, DueSince: origin}, lost, origin, 0.5)
	fmt.Println(t.To(), t.Code())
	// Output: unknown eof
}
