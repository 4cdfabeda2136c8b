// Package fault names the steps at which a crash means something: between what is written and what is said, and between what is
// claimed and what is sent. A crash campaign ends or freezes the process exactly there.
//
// In a normal build At does nothing and nothing can make it: there is no configuration, environment or call that reaches it.
// Only a binary built with the tag onebell_faults follows a plan; see plan.go. Steps on a provider's wire are not here: the
// provider's side of a test sees those better.
package fault

// Point is one step. Its name is the contract with campaigns.
type Point string

// The points, in the order in which a request comes by.
const (
	IntakeFetched Point = "intake.fetched" // a message was taken from the broker, nothing is decided
	IntakeRead    Point = "intake.read"    // a batch is decoded and checked
	AdmitBefore   Point = "admit.before"   // about to ask the database to admit a batch
	ReviseOpen    Point = "revise.open"    // inside the transaction that admits a newer revision, before its commit
	AdmitDone     Point = "admit.done"     // admitted and committed; neither handed over nor acknowledged
	RefuseDone    Point = "refuse.done"    // refusals are committed and not acknowledged
	AnswerBefore  Point = "answer.before"  // everything is committed, about to acknowledge
	AnswerDone    Point = "answer.done"    // a batch is acknowledged
	ClaimBefore   Point = "claim.before"   // about to claim what is due
	ClaimDone     Point = "claim.done"     // claimed and committed; no sender has begun
	SendBefore    Point = "send.before"    // the claim was trusted; about to call the channel
	SendDone      Point = "send.done"      // the channel returned an outcome that nothing remembers yet
	SettleBefore  Point = "settle.before"  // about to write settlements
	SettleDone    Point = "settle.done"    // settlements are committed
	TakeOverDone  Point = "takeover.done"  // an expired lease was taken over, and nothing decided about it
	WitnessBefore Point = "witness.before" // a late finisher is about to put its outcome on record
	SweepDone     Point = "sweep.done"     // what expired was ended
	RelayDone     Point = "relay.done"     // events are on the broker and still in the outbox
	PurgeMoved    Point = "purge.moved"    // the watermark was moved; the keys behind it are still there
	PurgeKeys     Point = "purge.keys"     // a batch of keys was deleted
	PurgeRows     Point = "purge.rows"     // a batch of intents or contents was deleted
)

// All returns every point.
func All() []Point {
	return []Point{
		IntakeFetched, IntakeRead, AdmitBefore, ReviseOpen, AdmitDone, RefuseDone, AnswerBefore, AnswerDone, ClaimBefore, ClaimDone,
		SendBefore, SendDone, SettleBefore, SettleDone, TakeOverDone, WitnessBefore, SweepDone, RelayDone, PurgeMoved, PurgeKeys, PurgeRows,
	}
}
