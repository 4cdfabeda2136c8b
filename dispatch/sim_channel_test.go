package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// simCall is one call of a provider, as its ledger has it.
type simCall struct {
	generation int32
	began      time.Time
	key        string
	bytes      []byte
	applied    bool // whether or not the caller heard of it; a keyed provider dropped it if it had that key
	harmless   bool // it ended, and provably without an effect
}

// applied is how many effects the recipient sees.
func (w *simWorld) applied(r *simRow) (n int) {
	for _, c := range r.calls {
		if c.applied {
			n++
		}
	}
	if r.Guarantee == channels.Keyed {
		return min(n, 1) // every call has the same key; see begin
	}
	return n
}

// simChannel is a provider as one host reaches it.
type simChannel struct {
	contract channels.Contract
	world    *simWorld
	host     *simHost
}

func simContract(g channels.Guarantee) channels.Contract {
	c := channels.Contract{Guarantee: g, KeyFormat: "uuid", KeyScope: "account", LookUp: channels.LookUpNone, AttemptTimeout: 2 * time.Second}
	switch g {
	case channels.Keyed:
		c.KeyField, c.KeyWindow = "key", 90*time.Second
	case channels.Replaceable:
		c.CollapseField, c.CollapseFormat, c.CollapseScope = "collapse", "uuid", channels.CollapseShown
	}
	return c
}

func (c *simChannel) Contract() channels.Contract { return c.contract }

func (c *simChannel) Validate(recipient string, _ json.RawMessage) (string, error) {
	return recipient, nil
}

func (c *simChannel) Render(channels.Message) ([]byte, error) { return nil, nil }

// begin notes a call, and holds what must be true of it: it begins inside the trust of its claim (I10), always with the same key and bytes
// (I9), inside the key window, and never on a duplicate-visible channel while an earlier one may have had an effect (I13).
func (c *simChannel) begin(a channels.Attempt) (*simRow, *simCall) {
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	r, now := w.byID[uuid.MustParse(a.IntentID)], time.Now()
	call := &simCall{generation: a.Generation, began: now, key: a.EffectKey + " " + a.CollapseKey, bytes: a.Rendered}
	if r.Generation != a.Generation || r.state != intents.Sending || now.Add(c.contract.AttemptTimeout+intents.LeaseMargin).After(r.lease) {
		w.breaks(r, "I10: an effect of generation %d begins %v before the end of the lease", a.Generation, r.lease.Sub(now))
	}
	for _, earlier := range r.calls {
		if earlier.key != call.key || !bytes.Equal(earlier.bytes, call.bytes) {
			w.breaks(r, "I9: generation %d sends another key or other bytes", a.Generation)
		}
		if earlier.harmless {
			continue
		}
		switch c.contract.Guarantee {
		case channels.DuplicateVisible:
			w.breaks(r, "I13: generation %d sends what generation %d may have sent", a.Generation, earlier.generation)
		case channels.Keyed:
			if now.Sub(earlier.began) >= c.contract.KeyWindow {
				w.breaks(r, "the key is used again %v after generation %d used it", now.Sub(earlier.began), earlier.generation)
			}
		}
	}
	r.calls = append(r.calls, call)
	return r, call
}

func (c *simChannel) apply(r *simRow, call *simCall) {
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	call.applied = true
	if n := w.applied(r); n > 1 && c.contract.Guarantee == channels.DuplicateVisible {
		w.breaks(r, "I1: applied %d times", n)
	}
}

func (c *simChannel) harmless(call *simCall, o channels.Outcome) channels.Outcome {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	call.harmless = true
	return o
}

// Send has the mishaps of a network and of a provider.
func (c *simChannel) Send(ctx context.Context, a channels.Attempt) channels.Outcome {
	r, call := c.begin(a)
	slow, mishap := c.host.draw(10) == 0, c.host.draw(16)
	if !c.host.faulty() {
		slow, mishap = false, 15
	}
	unknown := channels.OutcomeUnknown(channels.PhaseCommitted, "no-reply", "the reply was lost")
	c.host.stand()
	took := time.Duration(1+c.host.draw(300)) * time.Millisecond
	if slow {
		took = time.Duration(c.host.draw(4000)) * time.Millisecond
	}
	if !simSleep(ctx, took) {
		switch c.host.draw(3) {
		case 0:
			return c.harmless(call, channels.OutcomeNotSent(channels.PhaseConnect, "cut", "it was cut off before the request"))
		case 1:
			c.apply(r, call)
		}
		return unknown
	}
	switch mishap {
	case 0, 1: // applied, and the reply is lost
		c.apply(r, call)
		return unknown
	case 2: // not applied, and nobody knows
		return unknown
	case 3: // the request stays in the network for a while
		d := time.Duration(c.host.draw(30)) * time.Second
		c.world.late.Go(func() { time.Sleep(d); c.apply(r, call) })
		<-ctx.Done()
		return unknown
	case 4, 5:
		return c.harmless(call, channels.OutcomeNotSent(channels.PhaseConnect, "no-connection", "there was no connection"))
	case 6:
		return c.harmless(call, channels.OutcomeThrottled(time.Duration(c.host.draw(10))*time.Second, "slow-down", "too many"))
	case 7:
		return c.harmless(call, channels.OutcomeRefused("no-such-recipient", "there is none"))
	case 8:
		if c.host.draw(2) == 0 {
			c.apply(r, call)
		}
		panic("the adapter's own mistake")
	case 9:
		if c.host.draw(4) == 0 {
			return c.harmless(call, channels.OutcomeMisconfigured(channels.PhaseReply, "credentials", "they are wrong"))
		}
	}
	c.apply(r, call)
	c.host.stand()
	return channels.OutcomeAccepted("p", "ok", "taken")
}

// simSleep reports whether it slept on; false when ctx ended.
func simSleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
