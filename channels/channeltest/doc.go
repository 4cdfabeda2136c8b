// Package channeltest is the conformance kit that every channel type passes.
//
// A type hands Run a Kit: how to start a scripted peer with a channel that talks to it, and the table of outcomes that
// the type declares for each fault. The kit plays every fault at every phase and holds the promises of package channels:
// at most one effect on the wire for one Send, effects on the wire = attempts on record, "not sent" and "accepted" only
// when true, the same bytes under the same key on every attempt, nothing begun under a context that is done, no secret and
// no recipient in any outcome, error or log, no goroutine left behind.
//
// HTTPPeer is a scripted peer on raw TCP for the HTTP types; other protocols bring their own Peer.
package channeltest
