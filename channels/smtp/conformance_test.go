package smtp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/channels/channeltest"
)

const relayKey = "Relay-Idempotency-Key"

func TestConformance(t *testing.T) {
	for name, keyed := range map[string]bool{"duplicate-visible": false, "keyed": true} {
		t.Run(name, func(t *testing.T) { channeltest.Run(t, kit(keyed)) })
	}
}

func kit(keyed bool) channeltest.Kit {
	return channeltest.Kit{
		New: func(t *testing.T, env channeltest.Env) channeltest.Subject { return subject(t, env, keyed) },
		Cases: []channeltest.Case{
			{Fault: channeltest.FaultNone, Result: accepted, Phases: phases(channels.PhaseReply), Code: "250", Arrivals: 1},
			{Fault: channeltest.FaultNone, Warm: true, Result: accepted, Phases: phases(channels.PhaseReply), Arrivals: 1},
			{Fault: channeltest.FaultDialRefused, Result: notSent, Phases: phases(channels.PhaseConnect), Code: "connection-refused"},
			{Fault: channeltest.FaultHandshake, Result: notSent, Phases: phases(channels.PhaseConnect), Code: "not-smtp"},
			{Fault: channeltest.FaultStall, Result: notSent, Phases: phases(channels.PhaseConnect), Code: "timeout"},
			{Fault: channeltest.FaultCloseBefore, Result: notSent, Phases: phases(channels.PhaseRequest), Code: "connection-lost"},
			{Fault: channeltest.FaultCloseBefore, Warm: true, Result: notSent, Phases: phases(channels.PhaseRequest)},
			{Fault: channeltest.FaultCloseMid, Result: notSent, Phases: phases(channels.PhaseRequest), Code: "connection-lost"},
			{Fault: channeltest.FaultCloseMid, Warm: true, Result: notSent, Phases: phases(channels.PhaseRequest)},
			unknownAfter(channeltest.FaultCloseAfter, false, "connection-lost"),
			unknownAfter(channeltest.FaultCloseAfter, true, "connection-lost"),
			unknownAfter(channeltest.FaultResetAfter, false, "connection-lost"),
			unknownAfter(channeltest.FaultResetAfter, true, "connection-lost"),
			unknownAfter(channeltest.FaultSilence, false, "timeout"),
			unknownAfter(channeltest.FaultSilence, true, "timeout"),
			unknownAfter(channeltest.FaultTruncated, false, ""),
			unknownAfter(channeltest.FaultGarbage, false, "not-smtp"),
			unknownAfter(channeltest.FaultHeaderFlood, false, "not-smtp"),
			{Fault: channeltest.FaultBreakAfter, Result: accepted, Phases: phases(channels.PhaseReply), Arrivals: 1},
			{Fault: channeltest.FaultFlood, Result: accepted, Phases: phases(channels.PhaseReply), Arrivals: 1},
			status(421, throttled), status(451, notSent), status(452, throttled), status(535, misconf), status(550, refusedFor), status(554, refusedFor),
		},
		Exempt: map[channeltest.Fault]string{
			channeltest.FaultDrip: "nothing is read behind the reply to the final dot",
			channeltest.FaultBomb: "SMTP compresses nothing",
		},
		EffectKey: func(i int) string { return fmt.Sprintf("%040x", i+1) },
		Content: func(i int) json.RawMessage {
			return fmt.Appendf(nil, `{"subject":"Grüße %d","text":"%s\n.\n..dots","html":"<p>é</p>"}`, i, channeltest.Marker(i))
		},
		Bad: badInputs(),
	}
}

func phases(p ...channels.Phase) []channels.Phase { return p }

func unknownAfter(f channeltest.Fault, warm bool, code string) channeltest.Case {
	return channeltest.Case{Fault: f, Warm: warm, Result: unknown, Phases: phases(channels.PhaseCommitted), Code: code, Arrivals: 1}
}

// status is a reply to the final dot.
func status(code int, r channels.Result) channeltest.Case {
	return channeltest.Case{Fault: channeltest.FaultStatus(code), Result: r, Phases: phases(channels.PhaseReply), Code: fmt.Sprint(code), Arrivals: 1}
}

func badInputs() []channeltest.BadInput {
	var out []channeltest.BadInput
	for i, s := range badAddresses {
		if s != "" { // the kit's sign for a good one
			out = append(out, channeltest.BadInput{Name: fmt.Sprintf("address %d", i), Recipient: s, Code: channels.CodeRecipientInvalid, Field: "recipient"})
		}
	}
	for i, r := range refused {
		out = append(out, channeltest.BadInput{Name: fmt.Sprintf("content %d", i), Content: json.RawMessage(r.content), Code: channels.CodeContentInvalid, Field: r.field})
	}
	return out
}

func subject(t *testing.T, env channeltest.Env, keyed bool) channeltest.Subject {
	t.Helper()
	p := newPeer(t, func(w at) (act, bool) {
		met := w.dots
		if w.step == "dot" || w.step == "after" {
			met--
		}
		if met < env.Skip {
			return act{}, false
		}
		a, step := faultAct(env.Fault, w.rcpt)
		return a, step == w.step
	}, "AUTH PLAIN", "8BITMIME")
	if env.Fault == channeltest.FaultDialRefused {
		p.stop()
	}
	c := newChannel(t, p.addr, func(cfg *Config) {
		cfg.Timeout, cfg.DotTimeout, cfg.CommandTimeout = env.Timeout, env.Timeout/3, env.Timeout
		cfg.Username, cfg.Password = testUser, testPassword
		if keyed {
			cfg.IdempotencyHeader, cfg.KeyWindow = relayKey, time.Hour
		}
	})
	return channeltest.Subject{
		Channel: c, Peer: ledger{p},
		Recipient: func(i int) string { return fmt.Sprintf("Recipient-%d@canary.example.org", i) },
		Canaries:  []string{testUser, testPassword, "Recipient-0", "Recipient-1", "canary.example.org"},
	}
}

// faultAct is how this protocol shows a fault: what the peer does, and at which step.
func faultAct(f channeltest.Fault, rcpt string) (act, string) {
	if code := f.Status(); code != 0 {
		return act{reply: fmt.Sprintf("%d nothing for %s of %s with %s", code, rcpt, testUser, testPassword)}, "dot"
	}
	switch f {
	case channeltest.FaultHandshake:
		return act{reply: "* OK IMAP4rev1 ready"}, "greeting"
	case channeltest.FaultStall:
		return act{end: silence}, "greeting"
	case channeltest.FaultCloseBefore:
		return act{end: closing}, "MAIL"
	case channeltest.FaultCloseMid:
		return act{end: closing}, "DATA"
	case channeltest.FaultCloseAfter:
		return act{end: closing}, "dot"
	case channeltest.FaultResetAfter:
		return act{end: reset}, "dot"
	case channeltest.FaultSilence:
		return act{end: silence}, "dot"
	case channeltest.FaultTruncated:
		return act{reply: "25", end: closing}, "dot"
	case channeltest.FaultGarbage:
		return act{reply: "* OK IMAP4rev1 ready"}, "dot"
	case channeltest.FaultBreakAfter:
		return act{end: closing}, "after"
	case channeltest.FaultFlood:
		return act{reply: strings.Repeat("250 again\r\n", 100000), end: closing}, "after"
	case channeltest.FaultHeaderFlood:
		return act{reply: strings.Repeat("250-"+strings.Repeat("x", 1000)+"\r\n", 1000) + "250 ok"}, "dot"
	}
	return act{}, ""
}

// ledger shows a peer to the kit.
type ledger struct{ p *peer }

func (l ledger) Connections() int { return l.p.connections() }

func (l ledger) Arrivals() []channeltest.Arrival {
	var out []channeltest.Arrival
	for _, m := range l.p.dots() {
		a := channeltest.Arrival{Recipient: strings.TrimSuffix(strings.TrimPrefix(m.rcpt, "TO:<"), ">"), Body: m.body}
		if parsed, err := mail.ReadMessage(bytes.NewReader(m.body)); err == nil { // a broken mail has no key, which fails the test
			a.Key = parsed.Header.Get(relayKey)
		}
		out = append(out, a)
	}
	return out
}
