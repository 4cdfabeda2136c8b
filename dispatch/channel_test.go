package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
)

// scripted is a channel that does what the test says and keeps every send.
type scripted struct {
	contract channels.Contract
	send     func(ctx context.Context, a channels.Attempt) channels.Outcome // nil: accepted
	check    func(recipient string, content json.RawMessage) (string, error)
	draw     func(m channels.Message) ([]byte, error)

	mu    sync.Mutex
	sends []sent
}

type sent struct {
	channels.Attempt
	at time.Time
}

// unhurried is longer than a slow machine takes for anything: an attempt, and with it its lease, ends early only where a test says so.
const unhurried = 2 * time.Minute

var (
	keyed = channels.Contract{
		Guarantee: channels.Keyed, KeyField: "Idempotency-Key", KeyFormat: string(dedup.FormatHex64),
		KeyWindow: 24 * time.Hour, KeyScope: "account 1", LookUp: channels.LookUpNone, AttemptTimeout: unhurried,
	}
	replaceable = channels.Contract{
		Guarantee: channels.Replaceable, KeyFormat: string(dedup.FormatUUID), CollapseField: "tag",
		CollapseFormat: string(dedup.FormatBase64URL32), CollapseScope: channels.CollapseShown, LookUp: channels.LookUpNone, AttemptTimeout: unhurried,
	}
	visible = channels.Contract{
		Guarantee: channels.DuplicateVisible, KeyFormat: string(dedup.FormatHex64), LookUp: channels.LookUpNone,
		AttemptTimeout: unhurried,
	}
)

func on(contract channels.Contract) *scripted { return &scripted{contract: contract} }

// as makes an entry of the channel.
func (s *scripted) as(name string, settings ...func(*channels.Settings)) channels.Entry {
	e := channels.Entry{
		Name: name, Type: "scripted", Channel: s,
		Settings: channels.Settings{Concurrency: 8, MaxAttempts: 5, MaxAge: time.Hour},
	}
	for _, set := range settings {
		set(&e.Settings)
	}
	return e
}

func (s *scripted) Contract() channels.Contract { return s.contract }

func (s *scripted) Validate(recipient string, content json.RawMessage) (string, error) {
	if s.check != nil {
		return s.check(recipient, content)
	}
	return strings.ToLower(recipient), nil
}

func (s *scripted) Render(m channels.Message) ([]byte, error) {
	if s.draw != nil {
		return s.draw(m)
	}
	return append([]byte(m.EffectKey+" "), m.Content...), nil
}

func (s *scripted) Send(ctx context.Context, a channels.Attempt) channels.Outcome {
	s.mu.Lock()
	s.sends = append(s.sends, sent{a, time.Now()})
	s.mu.Unlock()
	if s.send != nil {
		return s.send(ctx, a)
	}
	return accepted()
}

func (s *scripted) all() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sent(nil), s.sends...)
}

func (s *scripted) count() int { return len(s.all()) }

// effects counts sends by effect key.
func (s *scripted) effects() map[string]int {
	out := map[string]int{}
	for _, a := range s.all() {
		out[a.EffectKey]++
	}
	return out
}

func accepted() channels.Outcome { return channels.OutcomeAccepted("p-1", "200", "") }

func lost() channels.Outcome {
	return channels.OutcomeUnknown(channels.PhaseCommitted, "reply-lost", "the reply did not come")
}

func busy() channels.Outcome {
	return channels.OutcomeNotSent(channels.PhaseReply, "503", "service unavailable")
}

// gateway makes sends wait until it is opened, and tells when one has begun.
type gateway struct {
	begun chan channels.Attempt
	open  chan struct{}
}

func newGateway() *gateway {
	return &gateway{begun: make(chan channels.Attempt, 10000), open: make(chan struct{})}
}

// hold waits for the gateway, whatever ctx says, and returns the outcome then.
func (g *gateway) hold(then func() channels.Outcome) func(context.Context, channels.Attempt) channels.Outcome {
	return func(_ context.Context, a channels.Attempt) channels.Outcome {
		g.begun <- a
		<-g.open
		return then()
	}
}

type sending = func(context.Context, channels.Attempt) channels.Outcome

func ends(o channels.Outcome) sending {
	return func(context.Context, channels.Attempt) channels.Outcome { return o }
}

// byText is a duplicate-visible channel that does what the text of a message says, and accepts all others.
func byText(what map[string]sending) *scripted {
	c := on(visible)
	c.send = func(ctx context.Context, a channels.Attempt) channels.Outcome {
		for text, do := range what {
			if strings.Contains(string(a.Rendered), text) {
				return do(ctx, a)
			}
		}
		return accepted()
	}
	return c
}
