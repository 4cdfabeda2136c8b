package smtp

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/onebell/onebell/channels"
)

// TestOneConnectionServesMany: mails in a row share a connection, one transaction each.
func TestOneConnectionServesMany(t *testing.T) {
	p := newPeer(t, nil)
	c := newChannel(t, p.addr)
	for range 5 {
		a := hello(t, c)
		o := c.Send(t.Context(), a)
		wantOutcome(t, o, channels.Accepted, channels.PhaseReply)
	}
	if n := p.connections(); n != 1 || p.accepted() != 5 {
		t.Errorf("%d mails over %d connections", p.accepted(), n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the connection ends with QUIT", func() bool { return p.live() == 0 && p.line("QUIT") != "" })
	wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.NotSent, channels.PhaseNone)
}

// TestStaleConnectionIsReplacedOnce: a kept connection that proves dead at MAIL or RCPT is replaced within the attempt, once, and
// never later than that.
func TestStaleConnectionIsReplacedOnce(t *testing.T) {
	for _, row := range []struct {
		step   string
		act    act
		result channels.Result
		conns  int
	}{
		{"MAIL", act{end: closing}, channels.Accepted, 2},
		{"MAIL", act{end: reset}, channels.Accepted, 2},
		{"MAIL", act{end: silence}, channels.Accepted, 2},
		{"MAIL", act{reply: "421 4.4.2 idle for too long", end: closing}, channels.Accepted, 2},
		{"RCPT", act{end: closing}, channels.Accepted, 2},
		{"DATA", act{end: closing}, channels.NotSent, 1},
		{"dot", act{end: closing}, channels.Unknown, 1},
		{"MAIL", act{reply: "451 4.3.0 later"}, channels.Throttled, 1},
	} {
		t.Run(row.step+row.act.reply+row.act.end, func(t *testing.T) {
			p := newPeer(t, func(w at) (act, bool) { return row.act, w.step == row.step && w.conn == 1 && w.n == 2 })
			c := newChannel(t, p.addr, func(cfg *Config) {
				if row.act.end == silence {
					cfg.CommandTimeout = 2 * time.Second
				}
			})
			first := hello(t, c)
			wantOutcome(t, c.Send(t.Context(), first), channels.Accepted, channels.PhaseReply)
			a := attempt(t, c, message(testKey(1), testRecipient, goodContent))
			o := c.Send(t.Context(), a)
			if o.Result() != row.result || p.connections() != row.conns {
				t.Errorf("%v (%s) over %d connections, want %v over %d", o.Result(), o.Message(), p.connections(), row.result, row.conns)
			}
			if n := len(p.dots()); n > 2 || o.Result() == channels.Accepted && !bytes.Equal(p.dots()[1].body, a.Rendered) {
				t.Errorf("%d mails on the wire for two attempts", n)
			}
		})
	}
	t.Run("dead for good", func(t *testing.T) {
		p := newPeer(t, func(w at) (act, bool) { return act{end: closing}, w.step == "MAIL" && !(w.conn == 1 && w.n == 1) })
		c := newChannel(t, p.addr)
		wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.Accepted, channels.PhaseReply)
		wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.NotSent, channels.PhaseRequest)
		if n := p.connections(); n != 2 {
			t.Errorf("%d connections, want the kept one and one more", n)
		}
	})
}

// TestRefusedTransactionIsReset: after a refusal the connection is used again, behind an RSET.
func TestRefusedTransactionIsReset(t *testing.T) {
	p := newPeer(t, once("RCPT", act{reply: "550 5.7.1 no"}))
	c := newChannel(t, p.addr)
	wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.Refused, channels.PhaseReply)
	wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.Accepted, channels.PhaseReply)
	if p.connections() != 1 || p.line("RSET") == "" {
		t.Errorf("%d connections, commands %q", p.connections(), p.lines())
	}
}

// TestIdleConnections: asked before use after a while, dropped when the answer fails, closed when nobody comes.
func TestIdleConnections(t *testing.T) {
	p := newPeer(t, once("RSET", act{end: closing}))
	c := newChannel(t, p.addr, func(cfg *Config) { cfg.IdleTimeout = 50 * time.Millisecond })
	wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.Accepted, channels.PhaseReply)
	poll(t, "the idle connection ends with QUIT", func() bool { return p.live() == 0 && p.line("QUIT") != "" })

	c = newChannel(t, p.addr, func(cfg *Config) { cfg.IdleTimeout = time.Hour })
	p.mu.Lock()
	p.count = 0 // the script's first connection is the next one
	p.mu.Unlock()
	wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.Accepted, channels.PhaseReply)
	c.pool.mu.Lock()
	c.pool.idle[0].used = time.Now().Add(-time.Minute)
	c.pool.mu.Unlock()
	wantOutcome(t, c.Send(t.Context(), hello(t, c)), channels.Accepted, channels.PhaseReply)
	if p.line("RSET") == "" || p.connections() != 2 {
		t.Errorf("%d connections, commands %q", p.connections(), p.lines())
	}
}

// sink is a mail server of emersion/go-smtp that keeps what it took.
type sink struct {
	mu    sync.Mutex
	mails map[string][]string // recipient → bodies
}

type sinkSession struct {
	s    *sink
	rcpt string
}

func (s *sink) NewSession(*smtp.Conn) (smtp.Session, error)      { return &sinkSession{s: s}, nil }
func (s *sinkSession) Reset()                                    { s.rcpt = "" }
func (s *sinkSession) Logout() error                             { return nil }
func (s *sinkSession) Mail(string, *smtp.MailOptions) error      { return nil }
func (s *sinkSession) Rcpt(to string, _ *smtp.RcptOptions) error { s.rcpt = to; return nil }
func (s *sinkSession) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	s.s.mails[s.rcpt] = append(s.s.mails[s.rcpt], string(b))
	return nil
}

func serve(t testing.TB) (*sink, string) {
	t.Helper()
	s := &sink{mails: map[string][]string{}}
	server := smtp.NewServer(s)
	server.Domain, server.ErrorLog = "mx.example.net", log.New(io.Discard, "", 0)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ln) })
	t.Cleanup(func() { _ = server.Close(); wg.Wait() })
	return s, ln.Addr().String()
}

// TestR2HundredAtOnce: every mail once, the right body to the right recipient, and the goroutines are gone afterwards.
func TestR2HundredAtOnce(t *testing.T) {
	s, addr := serve(t)
	c := newChannel(t, addr, func(cfg *Config) { cfg.MaxIdle = 8 })
	before := runtime.NumGoroutine()
	const n, rounds = 100, 3
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for k := range rounds {
				key := fmt.Sprintf("%038d%02d", i, k)
				m := message(key, fmt.Sprintf("r%d@example.org", i), fmt.Sprintf(`{"subject":"s","text":"for r%d in round %d."}`, i, k))
				rendered, err := c.Render(m)
				if err != nil {
					t.Error(err)
					return
				}
				if o := c.Send(t.Context(), channels.Attempt{EffectKey: key, Recipient: m.Recipient, Rendered: rendered}); o.Result() != channels.Accepted {
					t.Errorf("%d: %v %s", i, o.Result(), o.Message())
				}
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		bodies := s.mails[fmt.Sprintf("r%d@example.org", i)]
		if len(bodies) != rounds {
			t.Errorf("recipient %d has %d mails, want %d", i, len(bodies), rounds)
		}
		for _, b := range bodies {
			if !bytes.Contains([]byte(b), fmt.Appendf(nil, "for r%d in", i)) {
				t.Errorf("recipient %d has a mail of somebody else: %q", i, b)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestCloseWhileSending: the mail under way is finished, and its connection is not kept.
func TestCloseWhileSending(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	p := newPeer(t, func(w at) (act, bool) {
		if w.step == "dot" {
			close(reached)
			<-release
		}
		return act{}, false
	})
	c := newChannel(t, p.addr)
	a := hello(t, c)
	done := make(chan channels.Outcome, 1)
	go func() { done <- c.Send(t.Context(), a) }()
	<-reached
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	close(release)
	wantOutcome(t, <-done, channels.Accepted, channels.PhaseReply)
	poll(t, "its connection ends with QUIT", func() bool { return p.live() == 0 && p.line("QUIT") != "" })
}
