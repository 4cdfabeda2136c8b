// Package intents is the life of one promised notification: identity, states, claims, verdicts. It is pure.
package intents
