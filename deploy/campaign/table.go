package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// print writes the table and returns what is wrong, if anything is.
func (res *results) print(_ context.Context, o options, out io.Writer) error {
	byKind := map[string]int{}
	var total summary
	var takeovers []time.Duration
	violated, faults := 0, 0
	for _, r := range res.outcomes {
		for _, f := range r.faults {
			byKind[f.kind]++
			faults++
		}
		total.add(r.summary)
		takeovers = append(takeovers, r.takeovers...)
		violated += len(r.violations)
	}
	fmt.Fprintf(out, "\n%d seeds, %d faults, %d violations, %v\n\n", len(res.outcomes), faults, violated, time.Since(res.began).Round(time.Second))
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		fmt.Fprintf(out, "  %6d  %s\n", byKind[kind], kind)
	}
	slices.Sort(takeovers)
	fmt.Fprintf(out, "\n%+v\n", total)
	if n := len(takeovers); n > 0 {
		fmt.Fprintf(out, "takeovers %d: p50 %v p99 %v max %v\n", n, takeovers[n/2], takeovers[n*99/100], takeovers[n-1])
	}
	if violated > 0 {
		return errViolated
	}
	return nil
}
