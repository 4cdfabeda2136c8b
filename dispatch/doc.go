// Package dispatch carries a request from a NATS message to a settled intent.
//
// What holds at every step, whatever dies in between: a message is acknowledged only after its admission, or its refusal, is
// committed; an effect begins only under a claim that is still to be believed in; an attempt's outcome is written only where the
// claim's generation is still the intent's, and is evidence otherwise; an event leaves the outbox only when the broker has it.
// Whoever vanishes is found by the lease of what it held.
//
// The straight line, one step a file:
//
//	admission  consume → letter → intake (read → judge late → reserve → admit → hand over → refuse → answer)
//	delivery   lane (claim) → gate → send → settle → relay
//	upkeep     scout (what became due) · patrol (leases, expiry, pauses) · clock
//	life       config → dispatcher → drain; streams and settings say what the broker must be like
package dispatch
