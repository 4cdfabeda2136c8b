package main

import (
	"math/rand/v2"
)

// effect is one thing that a provider did.
type effect struct{}

// mishaps says how often the providers misbehave.
type mishaps struct{}

// peers are the providers.
type peers struct{}

func newPeers(_ *rand.Rand) (*peers, error) { return &peers{}, nil }

// env is what a dispatcher is configured with to reach them: ONEBELL_CHANNELS and every channel's variables.
func (p *peers) env() []string { return nil }

// trouble sets how often they misbehave from now on; the zero value mends them.
func (p *peers) trouble(_ mishaps) {}

// mishaps counts what they did wrong, by kind.
func (p *peers) mishaps() map[string]int { return nil }

// effects is their ledger.
func (p *peers) effects() []effect { return nil }

func (p *peers) close() {}

// drawMishaps chooses how often they misbehave in a round.
func drawMishaps(_ *rand.Rand) mishaps { return mishaps{} }
