package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// told is one time that a producer told a fact.
type told struct{}

// producers tell n facts.
type producers struct{}

func newProducers(broker string, p *peers, rnd *rand.Rand, n int) *producers { return &producers{} }

// run tells everything, evenly over the span, and insists (the broker and the dispatchers may be down) until each fact was taken
// or ctx ends.
func (p *producers) run(ctx context.Context, over time.Duration) error { return nil }

// told is their log.
func (p *producers) told() []told { return nil }

// mishaps counts what they did wrong on purpose, by kind: poison, storms, conflicts.
func (p *producers) mishaps() map[string]int { return nil }
