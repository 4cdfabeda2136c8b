package main

import (
	"hash/fnv"
	"time"
)

// aged is the sort of a fact that happened long ago: it is taken while the windows are long, and told again when they have become short.
const aged sort = " aged"

// age makes every third ordinary fact one that happened minutes to days ago: told early, and again late. Before run.
func (p *producers) age() {
	const early, late = 0.25, 0.55
	var again []telling
	for i := range p.plan {
		t := &p.plan[i]
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.of.String())) // never fails
		x := mix(h.Sum64())
		if t.sort != ordinary || x%3 != 0 {
			continue
		}
		t.sort, t.at = aged, early*t.at
		t.request.OccurredAt = t.request.OccurredAt.Add(-10*time.Minute - time.Duration(x%uint64(60*time.Hour)))
		repeat := *t
		repeat.at = late + (1-late)*p.rnd.Float64()
		again = append(again, repeat)
	}
	p.plan = append(p.plan, again...)
	inOrder(p.plan)
}
