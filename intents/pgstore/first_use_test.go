package pgstore_test

import (
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// A receiver may take note of a key when it first sees it, also where it answers "too many": its window runs from then, and so does
// ours. Counted from a later attempt, a resend in doubt could come after the receiver has forgotten the key, and be applied again.
func TestKeyIsInUseFromTheFirstAttemptThatReachedTheProvider(t *testing.T) {
	const window, took = time.Hour, 20 * time.Millisecond
	reached := channels.OutcomeThrottled(0, "429", "too many")
	for name, test := range map[string]struct {
		first channels.Outcome
		later time.Duration
		kept  bool
	}{
		"throttled":                      {reached, 50 * time.Minute, true},
		"throttled, and forgotten since": {reached, 2 * time.Hour, false},
		"never connected":                {channels.OutcomeNotSent(channels.PhaseConnect, "dial", "refused"), 50 * time.Minute, false},
		"broken off before it was whole": {channels.OutcomeNotSent(channels.PhaseRequest, "reset", "broken off"), 50 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.admit(ask("d:1", 0))
			first := b.claimOne(me)
			b.settle(intents.Settlement{
				ID: first.ID, Generation: first.Generation, Owner: me, Transition: intents.Retry(test.first, 0, true), Outcome: test.first, Took: took,
			})
			b.pass(test.later)
			b.exec(`update attempts set started_at = started_at - $1::interval, ended_at = ended_at - $1::interval`, test.later)
			w := wish("mail", me, 1)
			w.KeyWindow = window
			claims, err := b.Claim(b.ctx, w)
			if err != nil || len(claims) != 1 {
				t.Fatalf("%d claims, %v", len(claims), err)
			}
			used := claims[0].ClaimedAt.Sub(claims[0].FirstUsedAt)
			if test.kept && used < test.later || !test.kept && used != 0 {
				t.Errorf("the key is in use since %v before the claim; kept: %v", used, test.kept)
			}
		})
	}
}
