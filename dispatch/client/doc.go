// Package client is the Go SDK for producers: it builds keys, publishes requests, and asks what became of them.
//
// A producer says which fact it tells by a key of its own (Key), and when that fact happened. Everything may be called again with
// the same arguments after any error: the dispatcher answers repeats from its record, so nothing is sent twice.
// The one thing to get right is OccurredAt: it is the fact's own time, read from the producer's record of the fact. A producer that stamps
// each try anew is told so by a conflict.
package client
