// Package pgstore keeps intents in PostgreSQL: the only SQL on intents and keys, in queries/*.sql.
//
// Isolation is READ COMMITTED, and these rules carry everything else:
//
//   - The unique fact in "keys" is the dedup. A fact that another transaction is about to insert makes the second wait, and the
//     second is then answered by a statement of its own, whose snapshot is younger than the wait.
//   - Whoever changes an intent holds the lock of its row in "intents" first and touches its row in "agenda" only then. Agenda
//     rows carry the generation that they speak of, so that one read from an old snapshot matches nothing.
//     (Noting a look-up touches the agenda alone, and waits for nobody.)
//   - Every change after admission names id, state and generation. One that touches no row is looked into and answered.
//   - A newer revision marks every older one that is still open ("superseded_by") in its own transaction. What would put a marked
//     intent back to PENDING ends it instead, so an older revision never becomes claimable after a newer one.
//   - An open intent has a row in "agenda", or stands in a row of "claim_batches": somebody will look at it again.
//   - Times are the database's. Durations cross as intervals.
//
// A failed call may have taken effect. Every method recognises its own work when it is called again with the same arguments, and
// that is what it does itself, a few times, before it returns the error.
package pgstore
