package fcm

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/onebell/onebell/channels"
)

// A token endpoint that is down is asked once for all that wait for the same token, not once by each of them in turn.
func TestThoseThatWaitShareAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens("no such file", nil)
		tokens.turn <- struct{}{} // one is fetching
		const waiting = 5
		outcomes := make(chan *channels.Outcome, waiting)
		for range waiting {
			go func() {
				_, failed := tokens.get(context.Background())
				outcomes <- failed
			}()
		}
		synctest.Wait() // all wait
		failure := channels.OutcomeNotSent(channels.PhaseConnect, "down", "")
		tokens.mu.Lock()
		tokens.round++
		tokens.failed = &failure
		tokens.mu.Unlock()
		<-tokens.turn
		for range waiting {
			if o := <-outcomes; o == nil || o.Code() != "down" {
				t.Errorf("one asked by itself: %v", o)
			}
		}
		if _, failed := tokens.get(context.Background()); failed == nil || failed.Code() != codeCredentials {
			t.Errorf("a later one does not ask anew: %v", failed)
		}
	})
}

// One that waits for the token goes when its own time is over.
func TestWaitingForATokenEndsWithTheAttempt(t *testing.T) {
	tokens := newTokens("no such file", nil)
	tokens.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, failed := tokens.get(ctx); failed == nil || failed.Result() != channels.NotSent || failed.Phase() != channels.PhaseConnect {
		t.Errorf("%v", failed)
	}
}
