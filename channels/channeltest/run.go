package channeltest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"go.uber.org/goleak"
)

// Timeouts of attempts. Faults that end by time get a short one, so that they do not make a run long; everything before them takes
// milliseconds. All others get one that is longer than a slow machine takes for anything, as does what is waited for.
const (
	shortTimeout = 2 * time.Second
	patience     = 2 * time.Minute
)

func timeoutFor(f Fault) time.Duration {
	switch f {
	case FaultStall, FaultSilence, FaultDrip:
		return shortTimeout
	}
	return patience
}

// Marker is a string that the i-th content carries to the peer, so that a swapped body is seen.
func Marker(i int) string { return fmt.Sprintf("marker-%05d-end", i) }

type runner struct {
	kit    Kit
	checks atomic.Int64
}

// stage starts a subject, and at the end of t looks for what it left behind: goroutines, and canaries in logs.
func (r *runner) stage(t *testing.T, f Fault, skip int) *stage {
	t.Helper()
	return r.stageFor(t, Env{Fault: f, Skip: skip, Timeout: timeoutFor(f)})
}

func (r *runner) stageFor(t *testing.T, env Env) *stage {
	t.Helper()
	before := goleak.IgnoreCurrent()
	logs := &buffer{}
	restore := captureStandardLog(logs)
	s := &stage{t: t, runner: r, timeout: env.Timeout}
	t.Cleanup(func() { // runs last: New's own cleanups were registered later
		restore()
		s.noCanary("log", logs.String())
		var err error
		if !Poll(patience, func() bool { err = goleak.Find(before); return err == nil }) {
			t.Errorf("goroutines were left behind: %v", err)
		}
	})
	env.Log = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Subject = r.kit.New(t, env)
	if c, ok := s.Channel.(io.Closer); ok {
		t.Cleanup(func() { _ = c.Close() }) // what it leaves behind is looked for above
	}
	return s
}

type stage struct {
	Subject
	t       *testing.T
	runner  *runner
	timeout time.Duration // of an attempt
}

// attempt renders the i-th message and returns its first attempt.
func (s *stage) attempt(i int) channels.Attempt {
	s.t.Helper()
	m := s.message(i)
	rendered, err := s.Channel.Render(m)
	if err != nil {
		s.t.Fatalf("Render of good content %d: %v", i, err)
	}
	return channels.Attempt{
		IntentID: fmt.Sprintf("01900000-0000-7000-8000-%012d", i), Generation: 1,
		EffectKey: m.EffectKey, Recipient: m.Recipient, Rendered: rendered, Priority: "normal",
	}
}

func (s *stage) message(i int) channels.Message {
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	return channels.Message{
		EffectKey: s.runner.kit.EffectKey(i), Recipient: s.Recipient(i), Content: s.runner.kit.Content(i),
		OccurredAt: at, Date: at.Add(time.Second),
	}
}

// send sends once and holds what is true of every Send: it returns in time, does not change the rendered bytes, and
// betrays nothing.
func (s *stage) send(ctx context.Context, a channels.Attempt) channels.Outcome {
	s.t.Helper()
	kept := bytes.Clone(a.Rendered)
	type end struct {
		o        channels.Outcome
		panicked any
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		defer func() { e.panicked = recover(); ended <- e }()
		e.o = s.Channel.Send(ctx, a)
	}()
	var e end
	select {
	case e = <-ended:
	case <-time.After(s.timeout + patience):
		s.t.Fatalf("Send outlived its attempt timeout by %v", patience)
	}
	if e.panicked != nil {
		s.t.Fatalf("Send panicked: %v", e.panicked)
	}
	if !bytes.Equal(kept, a.Rendered) {
		s.t.Error("Send changed the rendered bytes")
	}
	s.noCanary("outcome", strings.Join([]string{e.o.Code(), e.o.Message(), e.o.ProviderID()}, "\n"))
	s.runner.checks.Add(1)
	return e.o
}

func (s *stage) noCanary(where, text string) {
	s.t.Helper()
	for _, c := range s.Canaries {
		if c != "" && strings.Contains(text, c) {
			s.t.Errorf("a recipient or secret stands in the %s: %q in %q", where, c, text)
		}
	}
}

// check holds an outcome against a case, and both against the peer's ledger.
func (s *stage) check(c Case, o channels.Outcome, arrivals int) {
	s.t.Helper()
	result := o.Result() == c.Result || slices.Contains(c.Or, o.Result())
	if !result || !slices.Contains(c.Phases, o.Phase()) || c.Code != "" && o.Code() != c.Code {
		s.t.Errorf("outcome %v phase %q code %q (%s), want %v phase %q code %q",
			o.Result(), o.Phase(), o.Code(), o.Message(), c.Result, c.Phases, c.Code)
	}
	if arrivals != c.Arrivals {
		s.t.Errorf("%d requests reached the peer by one Send, want %d", arrivals, c.Arrivals)
	}
	s.honest(o, arrivals)
}

// honest holds the promises that no table can lift.
func (s *stage) honest(o channels.Outcome, arrivals int) {
	s.t.Helper()
	switch {
	case arrivals > 1:
		s.t.Errorf("one Send made %d effects on the wire", arrivals)
	case o.Result() == channels.Accepted && arrivals != 1:
		s.t.Errorf("accepted, but %d requests reached the peer", arrivals)
	case o.Result() != channels.Accepted && o.Result() != channels.Unknown && o.Phase() != channels.PhaseReply && arrivals != 0:
		s.t.Errorf("%v at phase %q, but the request reached the peer", o.Result(), o.Phase())
	case o.Result() == channels.NotSent && o.Phase() == channels.PhaseCommitted:
		s.t.Error("not-sent although enough was written for the provider to act")
	}
	s.runner.checks.Add(1)
}

// settled waits until the peer's ledger has n arrivals, or returns what it has after a while.
func (s *stage) settled(n int) []Arrival {
	Poll(patience, func() bool { return len(s.Peer.Arrivals()) >= n })
	return s.Peer.Arrivals()
}

// Poll asks until the answer is yes, for at most d; it returns the last answer.
func Poll(d time.Duration, yes func() bool) bool {
	for end := time.Now().Add(d); ; {
		if yes() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
}

// captureStandardLog sends the output of package log, which net/http uses behind one's back, to w.
func captureStandardLog(w io.Writer) (restore func()) {
	old := log.Writer()
	log.SetOutput(w)
	return func() { log.SetOutput(old) }
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
