package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/onebell/onebell/intents/fault"
)

// What a seed decides.

// rnd is a source of choices of its own for each part, so that what one part does with time changes nothing for another.
func (r *round) rnd(part string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part)) // never fails
	return rand.New(rand.NewPCG(r.seed, h.Sum64()))
}

// weather chooses two to four kinds of disturbance: what happens alone goes deeper than what is drowned by everything else.
func (r *round) weather() []func(context.Context) error {
	brokers := r.brokers
	if r.partitions() {
		brokers = brokers[:dispatchers-1] // that one has its own
	}
	all := []func(context.Context) error{
		(&databaseFaults{r.worker.db, r.rnd("database"), r.record}).run,
		(&statementFaults{r.wire, r.rnd("statements"), r.record}).run,
		(&brokerFaults{r.broker, r.rnd("broker"), r.record}).run,
		(&networkFaults{brokers, r.databases, r.rnd("network"), r.record}).run,
		(&networkFaults{brokers, r.databases, r.rnd("swizzle"), r.record}).swizzle,
	}
	rnd := r.rnd("weather")
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:2+rnd.IntN(3)]
}

// firstLives are those that the seed decides: each dispatcher of each seed sees to one fault point, so that a few seeds reach all, and
// in every other round one of them stands still past its lease first. In a forgetful round they all serve calmly first, and in some rounds
// one is cut off from the broker for longer than that waits.
func (r *round) firstLives(slot int) []life {
	rnd := r.rnd(fmt.Sprint("first lives ", slot))
	if r.forgetful() {
		// Whoever has the duty of purging then dies at the point that the round sees to, and the others have time to get there.
		return []life{{ending: drained, wait: longMemory}, {ending: killedAtPoint, wait: 8 * time.Second}}
	}
	if slot == dispatchers-1 && r.partitions() {
		return []life{drawPartition(rnd)}
	}
	own := assigned(rnd, r.sees(slot), r.lease)
	if slot == 0 && rnd.IntN(2) == 0 {
		return []life{drawLongPause(rnd, r.lease), own}
	}
	return []life{own}
}

// sees is the fault point that a dispatcher of this seed sees to.
func (r *round) sees(slot int) fault.Point {
	before := int(r.seed - (r.seed+1)/3) // the seeds up to here that are not forgetful
	return reachable[(before*dispatchers+slot)%len(reachable)]
}

// everywhere is the plan that every life of the round has in the end, beside its own.
func (r *round) everywhere() string {
	var plan []string
	for slot := range dispatchers {
		if at := r.sees(slot); !r.forgetful() && slices.Contains(late, at) {
			plan = append(plan, fmt.Sprintf("%s:1:kill", at))
		}
	}
	return strings.Join(plan, ",")
}

// partitions reports whether one dispatcher is cut off from the broker for long: not in the short campaign.
func (r *round) partitions() bool { return r.seed%12 == 0 }

// forgetful reports whether windows are shortened in the middle of the round, so that keys are purged and come again.
func (r *round) forgetful() bool { return r.seed%3 == 2 }
