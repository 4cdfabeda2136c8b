package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/client"
)

// sort of fact. Its text is how what producers do wrong on purpose is counted; "" for what a good producer does.
type sort string

// Sorts of facts.
const (
	ordinary  sort = ""
	revised   sort = " revised"  // several revisions, the older ones told late as well
	expiring  sort = " expiring" // worthless soon
	waiting   sort = " waiting"  // not to be sent at once
	cancelled sort = " cancelled"
	departed  sort = " departed"                       // to an address that is refused for good
	stale     sort = "F18 fact older than the horizon" // told like any other
	storm     sort = "F13 one fact told sixty times"   // from every connection at once
	disputed  sort = "F13 one key with two meanings"   // both told
	bombed    sort = "F17 header bomb"                 // with headers beyond all measure
	poisoned  sort = "F17 poison"                      // nothing that could be read
)

// sortOf deals the sorts out over a hundred facts.
func sortOf(n int) sort {
	switch n := n % 100; {
	case n < 1:
		return storm
	case n < 2:
		return stale
	case n < 3:
		return disputed
	case n < 4:
		return bombed
	case n < 5:
		return cancelled
	case n < 8:
		return expiring
	case n < 9:
		return waiting
	case n < 11:
		return departed
	case n < 16:
		return revised
	case n < 20:
		return poisoned
	}
	return ordinary
}

const stormSize = 60

// callers of a campaign. Both use the same keys, which are different facts.
var callers = []string{"shop", "depot"}

// telling is one time that a fact is to be told.
type telling struct {
	at      float64 // share of the time
	of      identity
	variant variant
	sort    sort
	way     way
	request client.Request
	poison  poison
}

// way is how something is said.
type way string

// Ways.
const (
	publishing way = "publish"
	submitting way = "submit"
	cancelling way = "cancel"
	smuggling  way = "raw" // past the client, which would not say it
)

// planner makes the tellings of a campaign's producers.
type planner struct {
	peers *peers
	rnd   *rand.Rand
	now   time.Time
	list  []telling
}

func plan(p *peers, rnd *rand.Rand, now time.Time, n int) []telling {
	pl := &planner{peers: p, rnd: rnd, now: now}
	for i := range n {
		pl.fact(i, sortOf(i), rnd.Float64())
	}
	inOrder(pl.list)
	return pl.list
}

func inOrder(list []telling) {
	slices.SortStableFunc(list, func(a, b telling) int { return cmp.Compare(a.at, b.at) })
}

// fact plans the tellings of one fact, which happens at that share of the time.
func (pl *planner) fact(n int, s sort, at float64) {
	of := identity{
		caller: callers[n%2], channel: pl.peers.channels()[pl.rnd.IntN(len(pl.peers.channels()))],
		key: fmt.Sprintf("order:%d", n/2), // so that both callers use each key
	}
	first := telling{at: at, of: of, variant: "a", sort: s, request: pl.request(of, "a", n, s == departed)}
	switch s {
	case poisoned:
		first.way, first.poison = smuggling, poisons[pl.rnd.IntN(len(poisons))]
		pl.list = append(pl.list, first)
		return
	case stale:
		first.request.OccurredAt = first.request.OccurredAt.Add(-200 * time.Hour)
	case expiring:
		first.request.ExpiresAt = pl.now.Add(time.Duration(at*float64(chaosTime)) + between(pl.rnd, time.Second, 4*time.Second))
	case waiting:
		first.request.NotBefore = pl.now.Add(time.Duration(2+pl.rnd.IntN(15)) * time.Second)
	case storm:
		pl.tell(first, stormSize-1, 0.02)
		pl.tell(pl.other(first, n), 1, 0.02)
		return
	case disputed:
		pl.tell(pl.other(first, n), 1+pl.rnd.IntN(2), 0.3)
	case revised:
		pl.revisions(first, n)
	}
	pl.tell(first, 1+pl.rnd.IntN(3), 0.3)
	if s == cancelled {
		first.way = cancelling
		first.at += 0.1 * pl.rnd.Float64()
		pl.list = append(pl.list, first)
	}
}

// tell plans that many tellings, the first at once and the others within that share of the time.
func (pl *planner) tell(t telling, times int, within float64) {
	at := t.at
	for i := range times {
		if t.way = publishing; t.sort == bombed {
			t.way = smuggling
		} else if pl.rnd.IntN(2) == 0 {
			t.way = submitting
		}
		if i > 0 {
			t.at = at + within*pl.rnd.Float64()
		}
		pl.list = append(pl.list, t)
	}
}

// other is the same fact with another meaning.
func (pl *planner) other(t telling, n int) telling {
	t.variant = "b"
	occurred := t.request.OccurredAt
	t.request = pl.request(t.of, "b", n, false)
	t.request.OccurredAt = occurred
	return t
}

// revisions plans one or two newer ones, each a while after the one before.
func (pl *planner) revisions(t telling, n int) {
	for range 1 + pl.rnd.IntN(2) {
		t.of.revision++
		t.at += 0.15 * pl.rnd.Float64()
		occurred := t.request.OccurredAt.Add(time.Millisecond)
		t.request = pl.request(t.of, "a", n, false)
		t.request.OccurredAt = occurred
		pl.tell(t, 1+pl.rnd.IntN(2), 0.3)
	}
}

func (pl *planner) request(of identity, v variant, n int, gone bool) client.Request {
	r := client.Request{
		Key: dedup.Key(of.key), Revision: of.revision, OccurredAt: pl.now.Add(-time.Duration(n) * time.Second / 10).Truncate(time.Microsecond),
		Recipient: pl.peers.recipient(of, gone), Content: pl.peers.content(of, v),
	}
	if pl.rnd.IntN(5) == 0 {
		r.Priority = "high"
	}
	return r
}
