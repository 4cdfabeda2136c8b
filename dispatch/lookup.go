package dispatch

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// Bounds of the look-ups of one channel.
const (
	looksAtOnce = 4
	lookBatch   = 16
)

// lookUp asks providers that can be asked what became of UNKNOWN intents, until ctx ends. Channels do not wait for each other.
func (p *patrol) lookUp(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, l := range p.lanes {
		looker, ok := l.entry.Channel.(channels.Looker)
		if !ok || l.policy.Contract.LookUp != channels.LookUpPull {
			continue
		}
		asking.Go(func() {
			for pause(ctx, jittered(patrolEvery), nil) {
				for p.lookRound(ctx, l, looker) {
				}
			}
		})
	}
}

// lookRound asks about a batch. It returns true if there may be more.
func (p *patrol) lookRound(ctx context.Context, l *lane, looker channels.Looker) (more bool) {
	if ctx.Err() != nil || l.gate.paused(time.Now()) {
		return false
	}
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	questions, err := p.store.Unknowns(call, l.entry.Name, lookBatch)
	cancel()
	p.report("unknowns", err)
	var asking errgroup.Group
	asking.SetLimit(looksAtOnce)
	for _, q := range questions {
		asking.Go(func() error {
			p.lookInto(ctx, l, looker, q)
			return nil
		})
	}
	_ = asking.Wait()
	return len(questions) == lookBatch
}

// lookInto asks about one intent. A provider that cannot tell leaves no trace; what it can tell is written also when ctx ends.
func (p *patrol) lookInto(ctx context.Context, l *lane, looker channels.Looker, q intents.Question) {
	o := p.question(ctx, l, looker, q)
	log := p.log.With("intent", q.ID, "channel", l.entry.Name, "generation", q.Generation, "result", o.Result().String())
	if !o.Definite() {
		log.Debug("the provider cannot tell what became of it", "code", o.Code())
		return
	}
	answer := intents.Answer{
		ID: q.ID, Generation: q.Generation, Actor: p.owner, Outcome: o, Hold: !l.policy.MayRetry(q, p.clock.now()),
	}
	call, cancel := context.WithTimeout(p.writes, testifyTimeout)
	defer cancel()
	var r intents.Settled
	err := insist(call, func() (err error) {
		r, err = p.store.LookedUp(call, answer)
		p.report("looked up", err)
		return err
	})
	switch {
	case err != nil:
		log.Error("what a look-up found was not written; it will be asked for again", "error", err)
		return
	case r.Fenced:
		log.Info("a look-up's answer is on record and changes nothing", "state", r.State)
		return
	}
	log.Info("a look-up settled it", "state", r.State)
	if r.State == intents.Pending {
		l.due(time.Now().Add(o.Wait()))
	} else {
		p.settler.settled()
	}
}

// question asks the provider. A panic of the adapter answers nothing.
func (p *patrol) question(ctx context.Context, l *lane, looker channels.Looker, q intents.Question) (o channels.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, l.policy.Contract.AttemptTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			o = channels.OutcomeUnknown(channels.PhaseNone, codePanic, "the adapter panicked while it looked up")
			p.log.Error("the adapter panicked while it looked up", "channel", l.entry.Name, "intent", q.ID, "panic", panicName(v),
				"stack", string(debug.Stack()))
		}
	}()
	return looker.LookUp(ctx, channels.Attempt{
		IntentID: q.ID.String(), Generation: q.Generation, EffectKey: q.EffectKey, CollapseKey: q.CollapseKey, Recipient: q.Recipient,
		Rendered: q.Rendered, ExpiresAt: q.ExpiresAt, Priority: q.Priority.String(),
	})
}
