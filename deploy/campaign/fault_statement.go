package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/onebell/onebell/deploy/local"
)

// statementFaults loses or holds single statements and their answers between the dispatchers and the database.
type statementFaults struct {
	wire   *local.Wire
	rnd    *rand.Rand
	record *record
}

// steps are the statements that matter; a query's file begins with its name. "commit" is sent apart from them where a transaction
// has several statements.
var steps = []string{"admit", "admit", "claim", "claim", "settle", "settle", "take_over", "refuse", "revise", "supersede", "sweep", "commit"}

var losses = map[local.WireFault]string{
	local.LoseStatement: "F6 statement lost: ", local.LoseAnswer: "F6 answer lost: ",
	local.HoldStatement: "F6 statement held: ", local.HoldAnswer: "F6 answer held: ",
}

func (f *statementFaults) run(ctx context.Context) error {
	var watched sync.WaitGroup
	defer watched.Wait()
	defer f.wire.Disarm()
	for pause(ctx, between(f.rnd, 100*time.Millisecond, 500*time.Millisecond)) {
		step := pick(f.rnd, steps)
		kind := pick(f.rnd, []local.WireFault{local.LoseStatement, local.LoseAnswer, local.LoseAnswer, local.HoldStatement, local.HoldAnswer})
		long := between(f.rnd, 100*time.Millisecond, 3*time.Second)
		marker := "-- " + step + ":"
		if step == "commit" {
			marker = step
		}
		hit := f.wire.Arm(kind, marker)
		watched.Go(func() {
			defer hit.Release()
			select {
			case <-ctx.Done():
				return
			case <-hit.Done():
			}
			if !hit.Failed() {
				f.record.add(losses[kind] + step)
			}
			if kind == local.HoldStatement || kind == local.HoldAnswer {
				pause(ctx, long)
			}
		})
	}
	return nil
}
