package channels

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestZeroOutcomeIsUnknown(t *testing.T) {
	var o Outcome
	if o.Result() != Unknown || o.Definite() || o.Phase() != PhaseNone {
		t.Errorf("the zero outcome says %v at %q, definite %v", o.Result(), o.Phase(), o.Definite())
	}
}

// Each result has one spelling and one constructor; what is not in the set reads as unknown.
func TestResultsAreAClosedSet(t *testing.T) {
	made := map[string]Outcome{
		"unknown":       OutcomeUnknown(PhaseCommitted, "timeout", "m"),
		"accepted":      OutcomeAccepted("id", "250", "m"),
		"refused":       OutcomeRefused("550", "m"),
		"not-sent":      OutcomeNotSent(PhaseConnect, "dial", "m"),
		"throttled":     OutcomeThrottled(time.Second, "429", "m"),
		"misconfigured": OutcomeMisconfigured(PhaseConnect, "535", "m"),
	}
	if len(made) != len(resultNames) {
		t.Fatalf("%d constructors for %d results", len(made), len(resultNames))
	}
	for name, o := range made {
		if o.Result().String() != name || o.Definite() != (name != "unknown") {
			t.Errorf("constructor of %s makes %v, definite %v", name, o.Result(), o.Definite())
		}
	}
	if got := Result(len(resultNames)).String(); got != "unknown" {
		t.Errorf("a result outside the set reads %q", got)
	}
	if o := OutcomeDeadRecipient("410", ""); o.Result() != Refused || !o.DeadRecipient() {
		t.Errorf("dead recipient: %v, %v", o.Result(), o.DeadRecipient())
	}
}

// X4: foreign text is shown to operators and stored in PostgreSQL.
func TestX4ForeignTextIsHarmless(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"terminal escape":   {"\x1b[31mred\x1b[0m", "[31mred [0m"},
		"bidi override":     {"safe\u202Eevil", "safe evil"},
		"zero width":        {"a\u200Bb", "a b"},
		"line breaks":       {"a\r\nb\u2028c\u2029d\u0085e", "a  b c d e"},
		"NUL":               {"a\x00b", "a b"},
		"invalid UTF-8":     {"a\xc3\x28b", "a\uFFFD(b"},
		"markup stays text": {"<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"},
	} {
		o := OutcomeAccepted(c.in, c.in, c.in)
		if o.Message() != c.want || o.Code() != c.want || o.ProviderID() != c.want {
			t.Errorf("%s: message %q code %q id %q, want %q", name, o.Message(), o.Code(), o.ProviderID(), c.want)
		}
	}
}

// A cut inside a rune would be invalid UTF-8, which PostgreSQL refuses (22021): the settlement of a whole batch would fail.
func TestForeignTextIsCutAtARune(t *testing.T) {
	for _, r := range []string{"x", "é", "€", "😀"} {
		for pad := range 5 {
			s := strings.Repeat("a", pad) + strings.Repeat(r, 1000)
			o := OutcomeUnknown(PhaseReply, s, s)
			for what, got := range map[string]struct {
				s   string
				max int
			}{"message": {o.Message(), MaxMessage}, "code": {o.Code(), MaxCode}} {
				if !utf8.ValidString(got.s) || len(got.s) > got.max || len(got.s) < got.max-utf8.UTFMax {
					t.Errorf("%d+%q: %s of %d bytes, valid %v", pad, r, what, len(got.s), utf8.ValidString(got.s))
				}
			}
		}
	}
}

type stub struct{ contract Contract }

func (s stub) Contract() Contract                                 { return s.contract }
func (stub) Validate(r string, _ json.RawMessage) (string, error) { return r, nil }
func (stub) Render(Message) ([]byte, error)                       { return nil, nil }
func (stub) Send(context.Context, Attempt) Outcome                { return Outcome{} }

func TestRegistryRefusesWhatCannotBeKept(t *testing.T) {
	good := func() Entry {
		return Entry{
			Name: "hooks", Type: "webhook", Settings: Settings{Concurrency: 1, MaxAttempts: 1},
			Channel: stub{Contract{Guarantee: Keyed, KeyField: "k", KeyFormat: "uuid", KeyWindow: time.Hour, LookUp: LookUpNone, AttemptTimeout: time.Second}},
		}
	}
	contract := func(f func(*Contract)) func(*Entry) {
		return func(e *Entry) { c := e.Channel.Contract(); f(&c); e.Channel = stub{c} }
	}
	if _, err := NewRegistry(good()); err != nil {
		t.Fatalf("a good entry is refused: %v", err)
	}
	for name, spoil := range map[string]func(*Entry){
		"name with a dot":               func(e *Entry) { e.Name = "a.b" },
		"empty name":                    func(e *Entry) { e.Name = "" },
		"no channel":                    func(e *Entry) { e.Channel = nil },
		"no concurrency":                func(e *Entry) { e.Settings.Concurrency = 0 },
		"no attempts":                   func(e *Entry) { e.Settings.MaxAttempts = 0 },
		"negative rate":                 func(e *Entry) { e.Settings.Rate = -1 },
		"unknown choice":                func(e *Entry) { e.Settings.OnUnknown = "maybe" },
		"no key format":                 contract(func(c *Contract) { c.KeyFormat = "" }),
		"no timeout":                    contract(func(c *Contract) { c.AttemptTimeout = 0 }),
		"no guarantee":                  contract(func(c *Contract) { c.Guarantee = "" }),
		"keyed without window":          contract(func(c *Contract) { c.KeyWindow = 0 }),
		"keyed without field":           contract(func(c *Contract) { c.KeyField = "" }),
		"replaceable without collapse":  contract(func(c *Contract) { c.Guarantee = Replaceable }),
		"collapse field without format": contract(func(c *Contract) { c.CollapseField, c.CollapseScope = "tag", CollapseShown }),
		"unknown look-up":               contract(func(c *Contract) { c.LookUp = "" }),
		"pull without a looker":         contract(func(c *Contract) { c.LookUp = LookUpPull }),
		"TTL range upside down":         contract(func(c *Contract) { c.MinTTL, c.MaxTTL = 2, 1 }),
	} {
		e := good()
		spoil(&e)
		if _, err := NewRegistry(e); err == nil {
			t.Errorf("%s: admitted", name)
		}
	}
	if _, err := NewRegistry(good(), good()); err == nil {
		t.Error("the same name twice: admitted")
	}
}
