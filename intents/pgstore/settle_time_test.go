package pgstore_test

import (
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// A settlement that the database kept waiting says when the attempt was on the wire, not when it could be written.
func TestLateSettlementKeepsTheAttemptsTime(t *testing.T) {
	b := newBench(t)
	b.admit(ask("d:1", 0))
	claim := b.claimOne(me)
	const took, late = time.Second, 40 * time.Second
	o := channels.OutcomeAccepted("p-1", "250", "queued")
	b.settle(intents.Settlement{
		ID: claim.ID, Generation: claim.Generation, Owner: me, Transition: intents.Succeed(o), Outcome: o, Took: took, Ended: time.Now().Add(-late),
	})
	if length := one[time.Duration](b, `select ended_at - started_at from attempts`); length != took {
		t.Errorf("the attempt took %v, want %v", length, took)
	}
	if ended := one[time.Duration](b, `select now() - ended_at from attempts`); ended < late || ended > late+5*time.Minute {
		t.Errorf("the attempt ended %v ago, want %v and the time that this test takes", ended, late)
	}
}
