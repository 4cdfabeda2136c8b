package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// codePanic marks an attempt that ended in a panic of the adapter.
const codePanic = "panic"

// attempt is one claim's way from its turn to its settlement. ctx ends what has not begun.
func (l *lane) attempt(ctx context.Context, c intents.Claim) {
	turn := l.gate.turn(ctx, c.Trust.StartBy)
	l.gate.withdraw(1)
	if !turn {
		l.handBack(c, "its turn did not come in time")
		return
	}
	now := time.Now()
	if instead, ok := intents.BeforeSend(l.policy, c, c.Now(now), now); !ok {
		l.settleUnsent(c, instead)
		return
	}
	pass, err := l.gate.enter(now)
	if err != nil {
		l.handBack(c, "the channel is held back")
		return
	}
	fault.At(fault.SendBefore)
	outcome := l.send(c)
	fault.At(fault.SendDone)
	took := time.Since(now)
	l.heed(pass, c, outcome, took)
	l.settle(c, outcome, took)
}

// send makes the effect. A panic of the adapter is an unknown outcome of this intent alone: bytes may have left.
func (l *lane) send(c intents.Claim) (o channels.Outcome) {
	deadline := time.Now().Add(l.policy.Contract.AttemptTimeout)
	if c.Trust.FinishBy.Before(deadline) {
		deadline = c.Trust.FinishBy
	}
	ctx, cancel := context.WithDeadline(l.sends, deadline)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			o = channels.OutcomeUnknown(channels.PhaseCommitted, codePanic, "the adapter panicked; nobody knows how far it got")
			l.log.Error("the adapter panicked", "channel", l.entry.Name, "intent", c.ID, "generation", c.Generation,
				"panic", panicName(v), "stack", string(debug.Stack()))
		}
	}()
	return l.entry.Channel.Send(ctx, channels.Attempt{
		IntentID: c.ID.String(), Generation: c.Generation, EffectKey: c.EffectKey, CollapseKey: c.CollapseKey,
		Recipient: c.Recipient, Rendered: c.Rendered, ExpiresAt: c.ExpiresAt, Priority: c.Priority.String(),
	})
}

// panicName describes a panic without its value, which may hold personal data. Runtime errors hold none.
func panicName(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}

// heed tells the gate, and everybody, what the outcome says about the channel.
func (l *lane) heed(pass *pass, c intents.Claim, o channels.Outcome, took time.Duration) {
	l.metrics.attempt(l.entry.Name, o, took)
	l.clock(took)
	if pass.leave(o) {
		l.log.Info("the channel works again", "channel", l.entry.Name)
		l.wake.ring()
		go l.share("resume", func(ctx context.Context) error { return l.store.Resume(ctx, l.entry.Name) })
	}
	if o.Result() == channels.Misconfigured && l.gate.pause(time.Now()) {
		l.metrics.paused.WithLabelValues(l.entry.Name).Set(1)
		l.log.Error("the channel is misconfigured and is paused", "channel", l.entry.Name, "intent", c.ID, "code", o.Code())
		go l.share("pause", func(ctx context.Context) error {
			return l.store.Pause(ctx, l.entry.Name, l.policy.Contract.KeyScope, o.Code(), o.Message(), pauseBase, pauseLimit)
		})
	}
}

// share tells everybody what the gate found.
func (l *lane) share(what string, write func(context.Context) error) {
	l.tell(what, write)
	l.gate.told(time.Now())
}

// tell writes something about the channel, trying for a while.
func (l *lane) tell(what string, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(l.writes, pauseBase)
	defer cancel()
	if err := insist(ctx, func() error { return write(ctx) }); err != nil {
		l.log.Warn("the channel's state could not be written", "what", what, "channel", l.entry.Name, "error", err)
	}
}

// settle proposes what the outcome makes of the intent.
func (l *lane) settle(c intents.Claim, o channels.Outcome, took time.Duration) {
	t := intents.Next(l.policy, c, o, c.Now(time.Now()), rand.Float64())
	c.Rendered = nil // what was sent is not needed to settle it
	l.settler.put(finding{lane: l, claim: c, known: o, tried: true, settlement: intents.Settlement{
		ID: c.ID, Generation: c.Generation, Owner: l.owner, Transition: t, Outcome: o, Took: took, Ended: time.Now(),
	}})
}

// handBack returns a claim that was not used.
func (l *lane) handBack(c intents.Claim, reason string) { l.settleUnsent(c, intents.HandBack(reason)) }

// settleUnsent settles a claim whose effect was not begun. Should the claim be gone by then, that nothing was sent is
// evidence for whoever took it over.
func (l *lane) settleUnsent(c intents.Claim, t intents.Transition) {
	c.Rendered = nil
	l.settler.put(finding{
		lane: l, claim: c, known: channels.OutcomeNotSent(channels.PhaseNone, t.Code(), "the effect was not begun"),
		settlement: intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: l.owner, Transition: t, NoAttempt: true},
	})
}
