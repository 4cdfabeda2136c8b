// Package intents is the life of one promised notification: identity, states, claims, verdicts. It is pure.
//
// # Identity
//
// An intent is the promise to make one effect. Caller, channel, key and revision name it, and for each such name there is at most one
// intent, for ever within the horizon; behind the horizon a request is refused. Two requests of one name are the same if their
// fingerprints are; if not, the second is a conflict and never sent.
//
// # Who is authoritative
//
// The row in the database: not the message on the broker, which may come again; not a worker's memory, which may be old; not any clock
// but the database's. A claim is the right to make one attempt, for the time of its lease. Its generation is the fencing token:
// it only grows, and whoever does not carry the present one changes nothing. Every write after admission is conditional on
// id, state and generation; one that touches no row is an event to handle, never a success.
//
// An intent is in doubt when an attempt of it may have been applied and nobody knows. Doubt ends only with an accepted outcome,
// definite evidence about the sole attempt in doubt, or a person's decision. In doubt no state is written that says that nothing was sent.
//
// # States
//
// Drawn from Edges; a test compares.
//
//	request   ┬─→ PENDING     admitted
//	          └─→ SENDING     admitted and claimed in one statement
//	PENDING   ┬─→ SENDING     claimed: generation+1, lease
//	          ├─→ EXPIRED     expires_at passed
//	          ├─→ SUPERSEDED  a newer revision was admitted
//	          ├─→ CANCELLED   its caller took it back, or its recipient was erased
//	          │               never in doubt
//	          ├─→ UNKNOWN     in doubt, and expired, superseded or erased
//	          │               restored from a backup, where a repeat could be seen
//	          ├─→ SUCCEEDED   in doubt, and evidence: accepted
//	          └─→ PENDING     restored from a backup, where a repeat is harmless: in doubt, generation+1
//	SENDING   ┬─→ SUCCEEDED   accepted
//	          │               evidence: accepted
//	          ├─→ REJECTED    refused
//	          ├─→ PENDING     not sent, throttled, handed back: back-off
//	          │               unknown, lease over or restored, where a repeat is harmless: same keys, same bytes
//	          ├─→ UNKNOWN     unknown, lease over or restored, where a repeat could be seen
//	          │               any end in doubt but accepted
//	          ├─→ EXHAUSTED   not sent, and attempts or time are used up, or its content is gone
//	          ├─→ EXPIRED     not sent, and expires_at passed
//	          ├─→ SUPERSEDED  not sent, and a newer revision was admitted
//	          └─→ SENDING     lease over: taken over, generation+1
//	UNKNOWN   ┬─→ SUCCEEDED   evidence: accepted
//	          │               decision: delivered
//	          ├─→ REJECTED    evidence: refused, and nothing else is in doubt
//	          ├─→ PENDING     evidence: not sent, and nothing else is in doubt
//	          │               decision: not delivered (same keys)
//	          ├─→ SUPERSEDED  the same, and a newer revision was admitted
//	          └─→ ABANDONED   decision: abandon
//	EXHAUSTED ──→ PENDING     decision: redrive
//
// SUCCEEDED, REJECTED, EXPIRED, SUPERSEDED, CANCELLED, EXHAUSTED and ABANDONED are terminal.
//
// # What a stale owner may not do
//
// An owner whose lease ran out may be alive: paused, or cut off. It
//
//   - must not begin an effect once its Trust is over. Trust is counted from a reading taken before the claim was issued, so it ends before
//     the lease does;
//   - must not write a state: its settlement names a generation that is gone, and is answered as Fenced;
//   - must not be believed to have done nothing: its outcome is recorded as evidence, and settles an UNKNOWN intent if it is definite
//     (see Testimony). Between takeover and its settlement an intent is SENDING, but nobody sends: evidence takes it for UNKNOWN.
//
// What remains: a worker that is paused between its last look at the clock and its write, or a request that is delayed in the network,
// can still reach the provider late. No provider checks generations.
//
// # Contract and outcome
//
// What one attempt does to an intent that is not in doubt, while time and attempts are left (Next and AfterLease):
//
//	outcome        keyed      replaceable  duplicate-visible
//	accepted       SUCCEEDED  SUCCEEDED    SUCCEEDED
//	refused        REJECTED   REJECTED     REJECTED
//	not-sent       PENDING    PENDING      PENDING
//	throttled      PENDING    PENDING      PENDING
//	misconfigured  PENDING    PENDING      PENDING
//	unknown        PENDING    PENDING      UNKNOWN
//	lease over     PENDING    PENDING      UNKNOWN
//
// A resend after unknown or lease over carries the same keys and the same bytes. On a keyed channel it begins only inside the key window, less
// a margin that covers a whole attempt, and under the key scope that it was admitted under; on a replaceable one only if the operator did not choose to
// hold. Where it may not begin, and where time or attempts are used up, the intent is UNKNOWN. An intent that is not in doubt ends
// EXPIRED or EXHAUSTED there.
// The column is that of the contract under which the intent was admitted, since its bytes were rendered under that one. Where the channel has
// another guarantee by now, neither protects a repeat, and the column is duplicate-visible's.
// Misconfigured says nothing about the notification: it uses up neither attempts nor age, and the channel pauses. A lease that runs out
// uses up no attempt either; it is bounded apart, by MaxTakeovers, and by age.
// In doubt every end but accepted is UNKNOWN, also a refusal: an earlier attempt may have been accepted.
// An intent whose content was erased is never sent again: where it would be, it ends EXHAUSTED, or UNKNOWN in doubt.
package intents
