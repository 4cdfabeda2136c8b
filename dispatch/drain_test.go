package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestClaimingThatDoesNotEndLeavesTheSendsTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dispatcher{claiming: newStage()}
		hung := make(chan struct{})
		d.claiming.run(func(context.Context) { <-hung })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		d.claiming.stop()
		began := time.Now()
		if d.endClaims(ctx) || time.Since(began) != endClaims {
			t.Errorf("left after %v, want it unclean after %v", time.Since(began), endClaims)
		}
		close(hung)
		if !d.endClaims(ctx) {
			t.Error("what has ended is clean")
		}
	})
}
