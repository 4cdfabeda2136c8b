package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

const (
	patrolEvery   = 4 * time.Second // a lease is taken over within five seconds of its end
	takeoverBatch = 500
	sweepBatch    = 500
)

// takeoverLease is the time to settle what was taken over. It is the shortest that a claim has: who dies of it, or while
// others die, delays an intent no more than any crash does.
var takeoverLease = intents.LeaseFor(0)

// patrol looks after what nobody holds: leases that ran out, intents whose time is over, pauses of channels. It runs in
// every dispatcher; the store makes each of its steps one conditional update.
type patrol struct {
	store   Store
	writes  context.Context // ends writes, last of all
	lanes   map[string]*lane
	names   []string // of the lanes: a channel that is not configured here is left alone
	owner   string
	settler *settler
	clock   *databaseClock
	metrics *metrics
	log     *slog.Logger
	report  func(call string, err error)
	taken   map[takenClaim]time.Time // handed to the settler, and when
}

// takenClaim names a claim that was taken over.
type takenClaim struct {
	intent     uuid.UUID
	generation int32
}

func (p *patrol) run(ctx context.Context) {
	p.taken = map[takenClaim]time.Time{}
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { p.lookUp(ctx) })
	for round := 0; pause(ctx, jittered(patrolEvery), nil); round++ {
		p.takeOver(ctx)
		if round%2 == 0 {
			p.sweep(ctx)
		}
		if round%3 == 0 {
			p.states(ctx)
		}
	}
}

// takeOver claims what a vanished owner left in SENDING and settles it as nobody-knows.
func (p *patrol) takeOver(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		call, cancel := context.WithTimeout(p.writes, storeTimeout) // what was begun is finished: nobody else hears of it
		before := time.Now()
		claims, err := p.store.TakeOver(call, p.names, p.owner, takeoverLease, takeoverBatch)
		cancel()
		p.report("takeover", err)
		if len(claims) > 0 {
			fault.At(fault.TakeOverDone)
		}
		claims = p.unheard(claims, before)
		for _, c := range claims {
			c.Trust = intents.NewTrust(before, takeoverLease, 0)
			p.settleTaken(c)
		}
		more = len(claims) >= takeoverBatch
	}
}

// unheard leaves out what was handed to the settler before: the store returns it until it is settled, because an answer of the
// store's can be lost.
func (p *patrol) unheard(claims []intents.Claim, now time.Time) []intents.Claim {
	for c, at := range p.taken {
		if now.Sub(at) > takeoverLease {
			delete(p.taken, c) // by now it is a claim of another generation, or settled
		}
	}
	var fresh []intents.Claim
	for _, c := range claims {
		name := takenClaim{c.ID, c.Generation}
		if _, known := p.taken[name]; !known {
			p.taken[name] = now
			fresh = append(fresh, c)
		}
	}
	return fresh
}

func (p *patrol) settleTaken(c intents.Claim) {
	l := p.lanes[c.Identity.Channel]
	p.metrics.takeovers.WithLabelValues(p.metrics.channel(c.Identity.Channel)).Inc()
	p.log.Warn("a lease ran out and was taken over", "intent", c.ID, "channel", c.Identity.Channel, "generation", c.Generation)
	t := intents.AfterLease(l.policy, c, c.Now(time.Now()))
	p.settler.put(finding{lane: l, claim: c, settlement: intents.Settlement{
		ID: c.ID, Generation: c.Generation, Owner: p.owner, Transition: t, Outcome: intents.LeaseOver(), NoAttempt: true,
	}})
}

// sweep ends what is due and too late.
func (p *patrol) sweep(ctx context.Context) {
	for n := sweepBatch; n == sweepBatch && ctx.Err() == nil; {
		call, cancel := context.WithTimeout(ctx, storeTimeout)
		var err error
		n, err = p.store.Sweep(call, sweepBatch)
		cancel()
		p.report("sweep", err)
		if n > 0 {
			fault.At(fault.SweepDone)
		}
	}
}

// states brings what all dispatchers know of the channels to their gates. A pause found under another credential says
// nothing about the present one.
func (p *patrol) states(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	read := time.Now()
	states, err := p.store.ChannelStates(call)
	p.report("states", err)
	if err != nil {
		return
	}
	until := map[string]time.Time{}
	for _, s := range states {
		l, ok := p.lanes[s.Channel]
		if !ok || s.PausedUntil.IsZero() && !s.Paused {
			continue
		}
		if s.KeyScope != "" && s.KeyScope != l.policy.Contract.KeyScope {
			p.log.Info("the channel has new credentials; its pause ends", "channel", s.Channel)
			go l.tell("resume", func(ctx context.Context) error { return p.store.Resume(ctx, s.Channel) })
			continue
		}
		until[s.Channel] = p.localEnd(s, read)
	}
	for name, l := range p.lanes {
		if l.gate.heed(until[name], read) {
			l.wake.ring()
		}
		p.metrics.paused.WithLabelValues(name).Set(map[bool]float64{true: 1}[l.gate.paused(time.Now())])
	}
}

// localEnd is the local instant at which a pause ends. One without an end is looked at again with the next reading.
func (p *patrol) localEnd(s intents.ChannelState, read time.Time) time.Time {
	const far = 24 * time.Hour
	if end := p.clock.localTime(s.PausedUntil); s.Paused && (s.PausedUntil.IsZero() || end.After(read.Add(far))) {
		return read.Add(far)
	} else if s.Paused && !end.After(read) {
		return read.Add(time.Millisecond)
	} else {
		return end
	}
}
