package smtp

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
)

// expectation is what one fault leads to.
type expectation struct {
	step   string
	act    act
	result channels.Result
	phase  channels.Phase
}

// lost gives the three ways in which a connection can be lost at a step the same expectation.
func lost(step string, result channels.Result, phase channels.Phase) []expectation {
	return []expectation{
		{step, act{end: closing}, result, phase},
		{step, act{end: reset}, result, phase},
		{step, act{end: silence}, result, phase},
	}
}

func replied(step, reply string, result channels.Result) expectation {
	return expectation{step, act{reply: reply}, result, channels.PhaseReply}
}

// stageFaults is the table of providers.md §3: what a fault at each step means.
var stageFaults = slices.Concat(
	lost("greeting", notSent, channels.PhaseConnect),
	lost("EHLO", notSent, channels.PhaseConnect),
	lost("STARTTLS", notSent, channels.PhaseConnect),
	lost("handshake", notSent, channels.PhaseConnect),
	lost("AUTH", notSent, channels.PhaseConnect),
	lost("MAIL", notSent, channels.PhaseRequest),
	lost("RCPT", notSent, channels.PhaseRequest),
	lost("DATA", notSent, channels.PhaseRequest),
	lost("dot", unknown, channels.PhaseCommitted), // D1 a, b, c
	lost("after", accepted, channels.PhaseReply),
	lost("RSET", accepted, channels.PhaseReply),
	lost("QUIT", accepted, channels.PhaseReply),
	[]expectation{
		replied("greeting", "421 4.3.2 too many connections", channels.Throttled),
		replied("greeting", "554 5.7.1 not you", channels.Misconfigured),
		replied("EHLO", "421 later", channels.Throttled),
		replied("STARTTLS", "454 4.7.0 no TLS now", notSent),
		replied("STARTTLS", "501 5.5.4 no", channels.Misconfigured),
		replied("AUTH", "535 5.7.8 bad credentials", channels.Misconfigured),
		replied("AUTH", "534 5.7.9 stronger mechanism", channels.Misconfigured),
		replied("AUTH", "454 4.7.0 try later", notSent),
		replied("MAIL", "451 4.3.0 later", channels.Throttled),
		replied("MAIL", "421 4.7.0 too fast", channels.Throttled),
		replied("MAIL", "530 5.7.0 authenticate", channels.Misconfigured),
		replied("MAIL", "553 5.7.1 sender not yours", channels.Misconfigured),
		replied("RCPT", "450 4.2.0 grey-listed", notSent),
		replied("RCPT", "452 4.3.1 no room", channels.Throttled),
		replied("RCPT", "550 5.7.1 no", channels.Refused),
		replied("RCPT", "550 5.1.1 nobody", channels.Refused),
		replied("DATA", "451 4.3.0 later", notSent),
		replied("DATA", "554 5.5.1 no", channels.Refused),
		replied("dot", "451 4.3.0 later", notSent),
		replied("dot", "554 5.7.1 spam", channels.Refused),
		replied("dot", "250-2.0.0 Ok\r\n250 queued as 77", accepted),
		{"DATA", act{reply: "garbage"}, notSent, channels.PhaseRequest},
		{"DATA", act{reply: "354 go\r\n250 out of turn"}, notSent, channels.PhaseRequest},
		{"dot", act{reply: "garbage"}, unknown, channels.PhaseCommitted},
		{"dot", act{reply: "354 what"}, unknown, channels.PhaseCommitted},
		{"dot", act{reply: "250-2.0.0 Ok", end: closing}, unknown, channels.PhaseCommitted},
		{"dot", act{reply: "25", end: closing}, unknown, channels.PhaseCommitted},
	})

// TestFaultAtEveryStage plays the table, and asks the server what it took.
func TestFaultAtEveryStage(t *testing.T) {
	serving, roots := certificate(t)
	for _, e := range stageFaults {
		t.Run(fmt.Sprintf("%s %s%s", e.step, e.act.reply, e.act.end), func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, always(e.step, e.act), "AUTH PLAIN", "8BITMIME")
			p.tls = serving
			c := newChannel(t, p.addr, hastyAt(e.act), func(cfg *Config) {
				cfg.TLS, cfg.RootCAs, cfg.Username, cfg.Password, cfg.NoReuse = TLSMandatory, roots, testUser, testPassword, true
			})
			a := hello(t, c)
			o := c.Send(t.Context(), a) // it ends by its own timeouts alone
			wantOutcome(t, o, e.result, e.phase)
			if n := p.connections(); n != 1 {
				t.Errorf("%d connections for one attempt", n)
			}
			honest(t, c, p, a, o)
		})
	}
}

// honest ends the channel, lets the server read whatever was on its way, and holds the outcome against what it took: whole mails only,
// at most one, and none that was called "not sent".
func honest(t *testing.T, c *Channel, p *peer, a channels.Attempt, o channels.Outcome) {
	t.Helper()
	drain(t, c, p)
	for _, m := range p.dots() {
		if !bytes.Equal(m.body, a.Rendered) {
			t.Errorf("the server took other bytes than were rendered: %d of %d", len(m.body), len(a.Rendered))
		}
	}
	n := p.accepted()
	switch o.Result() {
	case channels.Accepted:
		if n != 1 {
			t.Errorf("accepted, and the server took %d mails", n)
		}
	case channels.Unknown:
		if n > 1 {
			t.Errorf("the server took %d mails of one attempt", n)
		}
	default:
		if n != 0 {
			t.Errorf("%v, and the server took %d mails", o.Result(), n)
		}
	}
}

// drain ends the channel and waits until the server has read every connection to its end, which comes only if none was left open.
func drain(t *testing.T, c *Channel, p *peer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	poll(t, "every connection ends", func() bool { return p.live() == 0 })
}

// TestHalfMailIsNeverTaken: whatever ends an attempt within the body, no dot follows (providers.md §0.3).
func TestHalfMailIsNeverTaken(t *testing.T) {
	t.Parallel()
	big := `{"subject":"Hello","text":"` + strings.Repeat("a line of text that goes on and on\\n", 20000) + `"}`
	for name, do := range map[string]act{
		"closed": {end: closing}, "reset": {end: reset}, "silent": {end: silence},
		"early 552": {reply: "552 5.3.4 too big", end: closing},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, always("body", do))
			c := newChannel(t, p.addr, hastyAt(do))
			a := attempt(t, c, message(testKey(1), testRecipient, big))
			o := c.Send(t.Context(), a)
			if r := o.Result(); r == channels.Accepted || r == channels.Refused && name != "early 552" {
				t.Errorf("outcome %v (%s)", r, o.Message())
			}
			drain(t, c, p)
			if n := len(p.dots()); n != 0 {
				t.Errorf("the server took %d mails of which it had read one line", n)
			}
		})
	}
	t.Run("called off", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPeer(t, func(w at) (act, bool) {
			if w.step == "body" {
				cancel()
				poll(t, "the client goes", func() bool { return ctx.Err() != nil })
			}
			return act{}, false
		})
		c := newChannel(t, p.addr)
		a := attempt(t, c, message(testKey(1), testRecipient, big))
		o := c.Send(ctx, a)
		honest(t, c, p, a, o)
	})
}

// TestDoneContextNeverCompletes: the context ends while the server thinks about DATA; the dot must not follow.
func TestDoneContextNeverCompletes(t *testing.T) {
	for _, step := range []string{"greeting", "EHLO", "MAIL", "RCPT", "DATA"} {
		t.Run(step, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := newPeer(t, func(w at) (act, bool) {
				if w.step == step {
					cancel()
				}
				return act{}, false
			})
			c := newChannel(t, p.addr)
			o := c.Send(ctx, hello(t, c))
			if o.Result() != channels.NotSent {
				t.Errorf("outcome %v %s (%s)", o.Result(), o.Code(), o.Message())
			}
			drain(t, c, p)
			if n := len(p.dots()); n != 0 {
				t.Errorf("%d mails were completed under a context that was done", n)
			}
		})
	}
}

// TestDotIsNotSentTooLate: with less time left than the reply to the dot may take, the mail is not completed.
func TestDotIsNotSentTooLate(t *testing.T) {
	t.Parallel()
	p := newPeer(t, nil)
	c := newChannel(t, p.addr, func(cfg *Config) { cfg.Timeout, cfg.DotTimeout = time.Minute, 30*time.Second })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	wantOutcome(t, c.Send(ctx, hello(t, c)), channels.NotSent, channels.PhaseNone)
	if n := p.connections(); n != 0 {
		t.Errorf("%d connections were opened although the attempt could not be finished", n)
	}
	// A server that dawdles before the dot does not use up the time that is kept for the reply to it.
	p = newPeer(t, always("RCPT", act{end: silence}))
	const rest = 4 * time.Second // for everything before the dot
	c = newChannel(t, p.addr, func(cfg *Config) {
		cfg.Timeout, cfg.DotTimeout, cfg.CommandTimeout = time.Hour+rest, time.Hour, time.Hour
	})
	ended := make(chan channels.Outcome, 1)
	a := hello(t, c)
	go func() { ended <- c.Send(t.Context(), a) }()
	select {
	case o := <-ended:
		wantOutcome(t, o, channels.NotSent, channels.PhaseRequest)
	case <-time.After(patience):
		t.Error("it is still waiting in the time that is kept for the reply to the dot")
	}
}

// TestSlowAcceptanceIsWaitedFor: a reply to the dot that takes longer than any other command may is no unknown.
func TestSlowAcceptanceIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPeer(t, func(w at) (act, bool) {
		if w.step == "dot" {
			<-time.After(4 * time.Second) // the server's time to think, twice a command's timeout
		}
		return act{}, false
	})
	c := newChannel(t, p.addr, func(cfg *Config) { cfg.CommandTimeout = 2 * time.Second })
	a := hello(t, c)
	o := c.Send(t.Context(), a)
	wantOutcome(t, o, channels.Accepted, channels.PhaseReply)
	if o.ProviderID() != "4F2A1B9C" {
		t.Errorf("provider id %q, want the queue id", o.ProviderID())
	}
	honest(t, c, p, a, o)
}
