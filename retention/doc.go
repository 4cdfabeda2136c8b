// Package retention forgets what nobody can ask for any more: keys, contents, settled intents and refusals, each after a window of its own.
//
// # What it may not do
//
// For every key, at every moment: it is remembered, or a request under it is refused. That rests on the watermark, one persisted instant
// that never moves back. A request for a fact that is not younger than it is refused unless its key is remembered, and whoever takes a key
// in holds a lock that a move of the watermark waits for. So the order is fixed: the watermark moves and is committed, then keys
// behind it go. The statement that deletes keys reads the watermark itself; no configuration, clock or caller can make it delete
// more. Changing a window, or giving two processes different ones, therefore opens no gap: at worst a request is refused that another
// configuration would have taken.
//
// The keys of a fact go together: only when all its revisions are behind the watermark and none of their intents is open. Their facts'
// times may come in any order, and one that is forgotten alone would let a late repeat of it in again.
//
// An intent that is not terminal, UNKNOWN above all, is never forgotten, nor are its key and its content.
//
// # How it works
//
// One process at a time, by a lease in the database; two at once would do no harm. Small transactions with pauses between them, along an
// index or the time-ordered ids, each step going on after the row that the last one ended at: rows that may not go hide none behind them.
package retention
