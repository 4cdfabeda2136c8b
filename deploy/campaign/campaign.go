package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// options say which rounds to run.
type options struct {
	first, seeds uint64
	parallel     int
	logs         string // folder that keeps what a violation left behind
	keep         bool   // that of every round
	json         string // file that gets the table
	reach        reach
}

// reach is what a campaign must have done to count: a fault point that nobody passed proves nothing.
type reach int

const (
	reachNothing reach = iota // a replay
	reachAll                  // every fault point was passed
	killAll                   // and some dispatcher was killed at each
)

// shortSeeds and longSeeds are how many rounds it takes to reach that.
const (
	shortSeeds = 9
	longSeeds  = 50
)

// results is what all rounds found, in the order in which they ended.
type results struct {
	mu       sync.Mutex
	outcomes []outcome
	began    time.Time
	postgres int
}

// What is wrong in the end; the details were printed.
var (
	errViolated = errors.New("a promise was broken")
	errReach    = errors.New("some fault points were not reached, so that the campaign proves less than it should")
)

// run runs the rounds and prints what they found, also when ctx ends before they do.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "onebell-campaign-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	root, binary, err := build(ctx, temp)
	if err != nil {
		return err
	}
	res := &results{began: time.Now()}
	err = res.work(ctx, o, worker{root: root, binary: binary, dir: o.logs, keep: o.keep}, out)
	if len(res.outcomes) == 0 {
		return err
	}
	t := res.table(o, conditionsOf(o, res.postgres))
	t.print(out)
	if o.json != "" {
		text, _ := json.MarshalIndent(t, "", "  ") // has nothing that cannot be encoded
		err = errors.Join(err, os.WriteFile(o.json, append(text, '\n'), 0o644))
	}
	return errors.Join(err, t.verdict(o.reach))
}

// verdict is what is wrong with the campaign's result.
func (t table) verdict(r reach) error {
	switch {
	case len(t.Violations) > 0:
		return errViolated
	case r >= reachAll && len(t.Unreached) > 0, r == killAll && len(t.Unkilled) > 0:
		return errReach
	}
	return nil
}

// work shares the seeds out among the workers.
func (res *results) work(ctx context.Context, o options, template worker, out io.Writer) error {
	seeds := make(chan uint64)
	together, ctx := errgroup.WithContext(ctx)
	together.Go(func() error {
		defer close(seeds)
		for seed := o.first; seed < o.first+o.seeds; seed++ {
			select {
			case seeds <- seed:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	for range o.parallel {
		w := template
		together.Go(func() (err error) {
			if w.db, err = startDatabase(ctx, w.binary); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, w.db.close()) }()
			res.of(w.db.server.Major())
			for seed := range seeds {
				found, err := w.round(ctx, seed)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil { // the other rounds are worth having all the same
					found.violations = append(found.violations, violation{"the campaign itself", err.Error()})
				}
				res.add(found, o, out)
			}
			return nil
		})
	}
	return together.Wait()
}

func (res *results) of(postgres int) {
	res.mu.Lock()
	defer res.mu.Unlock()
	res.postgres = postgres
}

func (res *results) add(found outcome, o options, out io.Writer) {
	res.mu.Lock()
	defer res.mu.Unlock()
	res.outcomes = append(res.outcomes, found)
	fmt.Fprintf(out, "seed %d: %d faults, %d intents, %d effects, %d unknown, %d violations, %.0f s (%d of %d)\n", found.seed, len(found.faults),
		found.summary.intents, found.summary.effects, found.summary.unknown, len(found.violations), found.took.Seconds(), len(res.outcomes), o.seeds)
	for _, v := range found.violations {
		fmt.Fprintf(out, "  VIOLATION of %s: %s\n", v.invariant, v.what)
	}
	if len(found.violations) > 0 {
		fmt.Fprintf(out, "  again: %s\n  logs: %s\n", o.replay(found.seed), found.logs)
	}
}

// replay is the command that runs one seed again.
func (o options) replay(seed uint64) string {
	return fmt.Sprintf("go run ./deploy/campaign --seed %d", seed)
}
