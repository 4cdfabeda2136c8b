package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/intents"
)

// tally is what one run of a comparison came to.
type tally struct {
	facts, tellings  int
	kills, serving   int
	killing, drained time.Duration
	replies          int // that were lost
	lost, twice      int // facts
	wrong            int // intents whose state is not the truth
	unknown          int // and why:
	byReply          int // the reply was lost
	bySettling       int // the receiver had taken it, and the dispatcher died before that was on record
	bySending        int // a sender had claimed it, the receiver has not taken it, and the dispatcher died
	otherwise        int
	violations       []violation
}

// count waits until everything is settled and holds it against the ledger.
func (d *duel) count(ctx context.Context) (tally, error) {
	var addr string
	for _, s := range d.slots {
		waiting, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var err error
		if addr, err = s.lives[len(s.lives)-1].serves(waiting); err != nil {
			return tally{}, err
		}
	}
	drained, err := d.drain(ctx)
	if err != nil {
		return tally{}, err
	}
	t := tally{
		facts: len(distinct(d.producers.plan)), tellings: len(d.producers.plan), kills: d.kills, serving: d.serving, killing: d.killing,
		drained: drained,
	}
	if t.drained > d.lease+drainPatience {
		t.violations = append(t.violations, violation{"drained in time", fmt.Sprintf("%v after the last kill", t.drained)})
	}
	api, err := admin.NewClient("http://"+addr, "", nil)
	if err != nil {
		return t, err
	}
	e := evidence{
		effects: d.peers.effects(), told: d.producers.told(), api: api, logs: d.logs(), faults: d.record.all(), lease: d.lease, mended: d.mended,
		metrics: readMetrics(ctx, d.admins()), canaries: append(d.peers.canaries(), d.secrets()...),
	}
	if e.events, err = readEvents(ctx, d.broker.url()); err != nil {
		return t, err
	}
	a, err := newAccount(ctx, e)
	if err != nil {
		return t, err
	}
	t.weigh(a, d)
	t.violations = append(t.violations, check(ctx, e)...)
	return t, d.keep(outcome{faults: e.faults, violations: t.violations})
}

// drain waits until everything is settled, and says how long after the last kill that was. It waits longer than it should have to:
// what is late is not yet lost.
func (d *duel) drain(ctx context.Context) (time.Duration, error) {
	d.mended = d.lastKill
	for range 5 {
		open, err := d.settled(ctx)
		if err != nil || len(open) == 0 {
			return time.Since(d.lastKill), err
		}
		d.mended = time.Now()
	}
	return time.Since(d.lastKill), nil
}

// distinct is the different ones that are told.
func distinct(plan []telling) map[identity]bool {
	out := map[identity]bool{}
	for _, t := range plan {
		out[t.of] = true
	}
	return out
}

// weigh looks at every fact.
func (t *tally) weigh(a *account, d *duel) {
	t.replies = d.peers.mishaps()[string(replyLost)]
	for of := range distinct(d.producers.plan) {
		in, ok := a.record[of]
		seen := applied(a.calls[of])
		switch state := intents.State(in.State); {
		case seen > 1:
			t.twice++
			t.violate("nothing twice", of, in)
		case !ok || seen == 0 && state != intents.UnknownState:
			t.lost++
			t.violate("nothing lost", of, in)
		case state == intents.UnknownState:
			t.unknown++
			t.explain(a.calls[of], in, d)
		case state != intents.Succeeded:
			t.wrong++
			t.violate("no wrong state", of, in)
		}
	}
	if d.channel == keyedChannel && t.unknown > 0 {
		t.violations = append(t.violations, violation{"no UNKNOWN at a keyed receiver", fmt.Sprint(t.unknown)})
	}
}

func (t *tally) violate(what string, of identity, in admin.IntentDetail) {
	t.violations = append(t.violations, violation{what, fmt.Sprintf("%v (%s) is %q", of, in.ID, in.State)})
}

// explain finds why an intent is UNKNOWN: nothing else may be than what was on the wire at a kill or lost its reply. A claim can be committed
// just after its dispatcher died: the statement was on its way.
func (t *tally) explain(calls []effect, in admin.IntentDetail, d *duel) {
	atKill := slices.ContainsFunc(in.Attempts, func(at admin.Attempt) bool {
		deaths, known := d.deaths[at.Owner]
		if !known && !d.lives(at.Owner) {
			deaths = d.deaths[""]
		}
		return at.Result == "unknown" && slices.ContainsFunc(deaths, func(death time.Time) bool {
			return at.StartedAt.Before(death.Add(slack)) && at.StartedAt.After(death.Add(-compareTimeout))
		})
	})
	switch {
	case slices.ContainsFunc(calls, func(e effect) bool { return e.mishap == replyLost }):
		t.byReply++
	case atKill && applied(calls) > 0:
		t.bySettling++
	case atKill:
		t.bySending++
	default:
		t.otherwise++
		t.violate("nothing else UNKNOWN", named(in.Intent), in)
		for _, at := range in.Attempts {
			last := &t.violations[len(t.violations)-1]
			last.what += fmt.Sprintf("; generation %d by %s: %s (%s) %s to %s", at.Generation, at.Owner, at.Result, at.Code,
				at.StartedAt.Format("15:04:05.000"), at.EndedAt.Format("15:04:05.000"))
		}
	}
}

// lives reports whether that is the name of a dispatcher that was not killed.
func (d *duel) lives(owner string) bool {
	return slices.ContainsFunc(d.slots, func(s *slot) bool { return s.lives[len(s.lives)-1].log.owner() == owner })
}
