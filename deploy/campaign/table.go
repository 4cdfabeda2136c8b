package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onebell/onebell/intents/fault"
)

// table is what all rounds found together. Its JSON form is what --json writes.
type table struct {
	Conditions conditions     `json:"conditions"`
	Seeds      []uint64       `json:"seeds"`
	Took       float64        `json:"seconds"`
	Faults     map[string]int `json:"faults"`
	Injected   int            `json:"faults_injected"`
	Intents    int            `json:"intents"`
	Effects    int            `json:"effects"`
	Twice      twice          `json:"facts_applied_twice"`
	Possible   int            `json:"possible_duplicates_counted"`
	Unknown    int            `json:"unknown"`
	OnTheWire  int            `json:"unknown_explained_by_a_fault"`
	Kept       int            `json:"acknowledged_requests_that_the_broker_kept"`
	Takeovers  spread         `json:"takeover_seconds_from_the_kill"`
	AmidFaults spread         `json:"takeover_seconds_while_faults_went_on"`
	Unreached  []fault.Point  `json:"fault_points_unreached"`
	Unkilled   []fault.Point  `json:"fault_points_without_a_kill"`
	Violations []found        `json:"violations"`
}

// twice counts facts that a provider applied more than once, by guarantee. A replaceable one replaces what the device shows.
type twice struct {
	Keyed       int `json:"keyed"`
	Replaceable int `json:"replaceable"`
	Visible     int `json:"duplicate_visible"`
}

// found is a violation and how to see it again.
type found struct {
	Seed      uint64 `json:"seed"`
	Invariant string `json:"invariant"`
	What      string `json:"what"`
	Again     string `json:"again"`
}

// spread sums up durations, in seconds.
type spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(list []time.Duration) spread {
	if len(list) == 0 {
		return spread{}
	}
	slices.Sort(list)
	at := func(share float64) float64 { return list[min(len(list)-1, int(share*float64(len(list))))].Seconds() }
	return spread{len(list), at(0.5), at(0.99), at(1)}
}

// table adds up the rounds so far.
func (res *results) table(o options, c conditions) table {
	res.mu.Lock()
	defer res.mu.Unlock()
	t := table{Conditions: c, Took: time.Since(res.began).Seconds(), Faults: map[string]int{}, Violations: []found{}}
	var sum summary
	var clean, amid []time.Duration
	reached := map[string]bool{}
	for _, r := range res.outcomes {
		t.Seeds = append(t.Seeds, r.seed)
		for _, f := range r.faults {
			t.Faults[f.kind]++
			t.Injected++
		}
		for _, point := range r.reached {
			reached[point] = true
		}
		for _, v := range r.violations {
			t.Violations = append(t.Violations, found{r.seed, v.invariant, v.what, o.replay(r.seed)})
		}
		sum.add(r.summary)
		t.Kept += r.kept
		clean, amid = append(clean, r.takeovers.clean...), append(amid, r.takeovers.amid...)
	}
	slices.Sort(t.Seeds)
	t.Intents, t.Effects, t.Possible, t.Unknown, t.OnTheWire = sum.intents, sum.effects, sum.possible, sum.unknown, sum.unknown-sum.unexplained
	t.Twice = twice{sum.keyedTwice, sum.replaceableTwice, sum.visibleTwice}
	t.Takeovers, t.AmidFaults = spreadOf(clean), spreadOf(amid)
	for _, point := range fault.All() {
		if !reached[string(point)] {
			t.Unreached = append(t.Unreached, point)
		}
		if t.Faults[killKind+string(point)] == 0 {
			t.Unkilled = append(t.Unkilled, point)
		}
	}
	return t
}

// print writes the table for people.
func (t table) print(out io.Writer) {
	fmt.Fprintf(out, "\n%d seeds in %v: %d faults injected, %d violations\n\n", len(t.Seeds), time.Duration(t.Took*1e9).Round(time.Second), t.Injected, len(t.Violations))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what string, is ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, strings.TrimSuffix(fmt.Sprintln(is...), "\n"))
	}
	row("intents", t.Intents)
	row("effects that providers applied", t.Effects)
	row("facts applied twice, keyed", t.Twice.Keyed)
	row("facts applied twice, duplicate-visible", t.Twice.Visible)
	row("facts delivered again, replaceable", fmt.Sprint(t.Twice.Replaceable, " (the device shows one)"))
	row("resends that the service counted as possible duplicates", t.Possible)
	row("UNKNOWN at the end", t.Unknown)
	row("… of which a fault on the wire explains", t.OnTheWire)
	row("acknowledged requests that a killed broker kept", fmt.Sprint(t.Kept, " (told again, and known)"))
	row("takeover, from the kill to the settlement", t.Takeovers)
	row("… while other faults went on", t.AmidFaults)
	row("fault points reached", fmt.Sprintf("%d of %d %v", len(fault.All())-len(t.Unreached), len(fault.All()), t.Unreached))
	row("fault points killed at", fmt.Sprintf("%d of %d %v", len(fault.All())-len(t.Unkilled), len(fault.All()), t.Unkilled))
	t.Conditions.rows(row)
	_ = w.Flush() // what cannot be printed cannot be told either
	fmt.Fprintln(out, "\nfaults by kind")
	for _, kind := range slices.Sorted(maps.Keys(t.Faults)) {
		fmt.Fprintf(out, "%7d  %s\n", t.Faults[kind], kind)
	}
	fmt.Fprintln(out, "\n"+elsewhere)
	for _, v := range t.Violations {
		fmt.Fprintf(out, "\nVIOLATION of %s with seed %d: %s\n  again: %s\n", v.Invariant, v.Seed, v.What, v.Again)
	}
}

// String is for people.
func (s spread) String() string {
	return fmt.Sprintf("p50 %.1f s, p99 %.1f s, max %.1f s (%d)", s.P50, s.P99, s.Max, s.N)
}

// elsewhere says which faults of the list are not a round's.
const elsewhere = `Not injected here: F3 clock jumps (leases and horizons go by the database's clock; the trust in a claim is tested with both clocks),
F5 failover with a lost tail (the subcommand hosts), F16 a restored database and F19 two versions side by side (tests). Nothing injects F12
full disks, F14 and F15 a broker that lost or damaged its store, and F20 decisions of operators yet.
The seed decides the schedule; how processes interleave, no seed decides.`
