package channeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// contract: complete, accepted by the registry, and the same each time it is asked for.
func (r *runner) contract(t *testing.T) {
	s := r.stage(t, FaultNone, 0)
	c := s.Channel.Contract()
	settings := channels.Settings{Concurrency: 1, MaxAttempts: 1}
	if _, err := channels.NewRegistry(channels.Entry{Name: "x", Type: "x", Channel: s.Channel, Settings: settings}); err != nil {
		t.Errorf("the registry refuses it: %v", err)
	}
	if !reflect.DeepEqual(c, s.Channel.Contract()) {
		t.Error("two calls of Contract differ")
	}
	if c.AttemptTimeout != s.timeout {
		t.Errorf("attempt timeout %v, want the %v it was started with", c.AttemptTimeout, s.timeout)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	s.noCanary("contract", string(b))
	r.checks.Add(4)
}

// admission: Validate and Render are pure: same in, same out, nothing on the wire, nothing changed; and normal forms are
// fixed points.
func (r *runner) admission(t *testing.T) {
	s := r.stage(t, FaultNone, 0)
	for i := range 20 {
		m := s.message(i)
		kept := bytes.Clone(m.Content)
		normal, err := s.Channel.Validate(m.Recipient, m.Content)
		if err != nil || normal != m.Recipient {
			t.Fatalf("Validate of a good request: %q, %v; want the recipient as it is", normal, err)
		}
		first, err := s.Channel.Render(m)
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.Channel.Render(m)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("rendering message %d twice gave different bytes (%v)", i, err)
		}
		if !bytes.Contains(first, []byte(Marker(i))) {
			t.Errorf("the rendered bytes do not carry content %d", i)
		}
		if !bytes.Equal(kept, m.Content) {
			t.Error("Validate or Render changed the content")
		}
		r.checks.Add(4)
	}
	if n := s.Peer.Connections(); n != 0 {
		t.Errorf("admission opened %d connections", n)
	}
}

// badInput: refused with a code, a field and a sentence, without the value.
func (r *runner) badInput(t *testing.T) {
	s := r.stage(t, FaultNone, 0)
	for _, b := range r.kit.Bad {
		t.Run(b.Name, func(t *testing.T) {
			recipient, content := b.Recipient, b.Content
			if recipient == "" {
				recipient = s.Recipient(0)
			}
			if content == nil {
				content = r.kit.Content(0)
			}
			_, err := s.Channel.Validate(recipient, content)
			var refusal *channels.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("Validate returned %v, want a *channels.Refusal", err)
			}
			if refusal.Code != b.Code || b.Field != "" && refusal.Field != b.Field || refusal.Message == "" {
				t.Errorf("refusal %+v, want code %q field %q and a sentence", *refusal, b.Code, b.Field)
			}
			s.noCanary("refusal", err.Error())
			if len(b.Recipient) > 8 && bytes.Contains([]byte(err.Error()), []byte(b.Recipient)) {
				t.Errorf("the refusal holds the recipient: %v", err)
			}
			r.checks.Add(3)
		})
	}
}

// faults: every fault of the table, and the table has every required fault.
func (r *runner) faults(t *testing.T) {
	answered := map[Fault]bool{}
	for _, c := range r.kit.Cases {
		answered[c.Fault] = true
		name := string(c.Fault)
		if c.Warm {
			name += " on a used connection"
		}
		t.Run(name, func(t *testing.T) { r.fault(t, c) })
	}
	for _, f := range Required() {
		if reason := r.kit.Exempt[f]; !answered[f] && reason == "" {
			t.Errorf("the table has no answer to fault %q", f)
		}
	}
}

func (r *runner) fault(t *testing.T, c Case) {
	skip := 0
	if c.Warm {
		skip = 1
	}
	s := r.stage(t, c.Fault, skip)
	if c.Warm {
		o := s.send(t.Context(), s.attempt(0))
		s.check(Case{Result: channels.Accepted, Phases: []channels.Phase{channels.PhaseReply}, Arrivals: 1}, o, len(s.settled(1)))
	}
	o := s.send(t.Context(), s.attempt(1))
	arrivals := s.settled(skip + c.Arrivals)[skip:]
	s.check(c, o, len(arrivals))
	for _, a := range arrivals {
		s.same(a, s.attempt(1))
	}
}

// same holds an arrival against the attempt that made it.
func (s *stage) same(got Arrival, a channels.Attempt) {
	s.t.Helper()
	same := s.SameRecipient
	if same == nil {
		same = func(x, y string) bool { return x == y }
	}
	if !same(got.Recipient, a.Recipient) {
		s.t.Error("the request reached another recipient")
	}
	if !bytes.Equal(got.Body, a.Rendered) {
		s.t.Errorf("the bytes on the wire are not the rendered ones:\n%q\n%q", got.Body, a.Rendered)
	}
	if (got.Key != "" || s.Channel.Contract().KeyField != "") && got.Key != a.EffectKey {
		s.t.Errorf("key on the wire %q, want %q", got.Key, a.EffectKey)
	}
	s.runner.checks.Add(3)
}

// replay: attempts on record = effects on the wire, all with the same key and bytes.
func (r *runner) replay(t *testing.T) {
	s := r.stage(t, FaultCloseAfter, 0)
	a := s.attempt(7)
	const attempts = 4
	for g := range attempts {
		a.Generation = int32(g + 1)
		s.send(t.Context(), a)
	}
	arrivals := s.settled(attempts)
	if len(arrivals) != attempts {
		t.Errorf("%d effects on the wire for %d attempts on record", len(arrivals), attempts)
	}
	for _, got := range arrivals {
		s.same(got, a)
	}
}

// contexts: a context that is done begins nothing; one that ends ends the attempt, honestly.
func (r *runner) contexts(t *testing.T) {
	t.Run("done before", func(t *testing.T) {
		s := r.stage(t, FaultNone, 0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		o := s.send(ctx, s.attempt(0))
		s.check(Case{Result: channels.NotSent, Phases: []channels.Phase{channels.PhaseNone, channels.PhaseConnect}}, o, len(s.Peer.Arrivals()))
	})
	t.Run("deadline passed before", func(t *testing.T) {
		s := r.stage(t, FaultNone, 0)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		o := s.send(ctx, s.attempt(0))
		s.check(Case{Result: channels.NotSent, Phases: []channels.Phase{channels.PhaseNone, channels.PhaseConnect}}, o, len(s.Peer.Arrivals()))
	})
	if _, exempt := r.kit.Exempt[FaultStall]; !exempt {
		t.Run("ends while connecting", func(t *testing.T) {
			s := r.stageFor(t, Env{Fault: FaultStall, Timeout: patience})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				Poll(patience, func() bool { return s.Peer.Connections() > 0 })
				cancel()
			}()
			o := s.send(ctx, s.attempt(0))
			s.check(Case{Result: channels.NotSent, Phases: []channels.Phase{channels.PhaseConnect}}, o, len(s.Peer.Arrivals()))
		})
	}
	if _, exempt := r.kit.Exempt[FaultSilence]; !exempt {
		t.Run("ends after the request", func(t *testing.T) {
			s := r.stageFor(t, Env{Fault: FaultSilence, Timeout: patience})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				Poll(patience, func() bool { return len(s.Peer.Arrivals()) > 0 })
				cancel()
			}()
			o := s.send(ctx, s.attempt(0))
			s.check(Case{Result: channels.Unknown, Phases: []channels.Phase{channels.PhaseCommitted}, Arrivals: 1}, o, len(s.settled(1)))
		})
	}
}

// parallel: a hundred at once through one channel; each body reaches its own recipient, once (R2).
func (r *runner) parallel(t *testing.T) {
	s := r.stage(t, FaultNone, 0)
	const n = 100
	attempts := make([]channels.Attempt, n)
	outcomes := make([]channels.Outcome, n)
	for i := range n {
		attempts[i] = s.attempt(i)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { outcomes[i] = s.Channel.Send(context.WithoutCancel(t.Context()), attempts[i]) })
	}
	wg.Wait()
	accepted := 0
	for i, o := range outcomes {
		s.noCanary("outcome", o.Code()+o.Message()+o.ProviderID())
		if o.Result() != channels.Accepted {
			t.Errorf("send %d: %v %s %s", i, o.Result(), o.Code(), o.Message())
			continue
		}
		accepted++
	}
	arrivals := s.settled(accepted)
	if len(arrivals) != n {
		t.Errorf("%d requests reached the peer, want %d", len(arrivals), n)
	}
	seen := map[int]bool{}
	for _, got := range arrivals {
		for i := range n {
			if bytes.Contains(got.Body, []byte(Marker(i))) {
				if seen[i] {
					t.Errorf("message %d arrived twice", i)
				}
				seen[i] = true
				s.same(got, attempts[i])
			}
		}
	}
}
