package main

import (
	"time"

	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/dispatch/wire"
)

// evidence is everything that a round leaves behind, for check to compare.
type evidence struct {
	effects []effect      // what the providers applied or refused
	told    []told        // what the producers asked for, and what they were answered
	events  []wire.Event  // what the service told the producers
	api     *admin.Client // of a dispatcher that runs; every intent and refusal is read from there
	logs    string        // of every dispatcher of the round
	faults  []injected
	lease   time.Duration // of the channels' claims
	mended  time.Time     // since then no fault was injected

	seen     []sighting // what was seen on the way
	metrics  string     // the metrics page of each dispatcher that was left
	canaries []string   // what none of them may show
}

// injected is one disturbance that took effect.
type injected struct {
	kind string // as in "F1 kill at settle.done"
	at   time.Time
}

// violation is one invariant that did not hold.
type violation struct {
	invariant string // as in "I1"
	what      string // the sentence, with the ids that it speaks of
}
