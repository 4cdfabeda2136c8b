package channels

import (
	"context"
	"encoding/json"
	"time"
)

// Channel is one configured way to reach somebody. All methods are safe for concurrent use.
type Channel interface {
	// Contract returns the channel's contract; it never changes during the life of the value.
	Contract() Contract

	// Validate checks recipient and content at admission and returns the recipient in its normal form, the one that is
	// fingerprinted, stored and sent to. It is pure: no network, no clock. What it refuses is a *Refusal.
	Validate(recipient string, content json.RawMessage) (normal string, err error)

	// Render makes the bytes that every attempt of this intent will send. It runs once, at admission, and its result is
	// stored: providers compare bodies under one key, so nothing may be rendered anew for a resend. No network.
	// What it refuses is a *Refusal.
	Render(m Message) ([]byte, error)

	// Send makes at most one effect on the wire and reports how it ended. It never resends, also not through a library
	// beneath it. It honours ctx at every step, and does not start, or does not complete, the effect once ctx is done.
	// It does not panic on purpose; the caller turns a panic into an unknown outcome.
	Send(ctx context.Context, a Attempt) Outcome
}

// Prober is implemented by channels that can be checked without sending anything; `onebell doctor` uses it.
type Prober interface {
	// Probe connects and authenticates. The error says what to mend and holds no secret.
	Probe(ctx context.Context) error
}

// Looker is implemented by channels whose contract says LookUpPull.
type Looker interface {
	// LookUp asks the provider what became of an effect key. Definite outcomes are evidence; an unknown one says that
	// the provider could not tell. It changes nothing at the provider and may be repeated.
	LookUp(ctx context.Context, a Attempt) Outcome
}

// Message is what a channel renders.
type Message struct {
	EffectKey   string // encoded in the contract's KeyFormat; the same for every attempt of one intent
	CollapseKey string // encoded in the contract's CollapseFormat; shared by the revisions of one fact; "" without collapse
	// CollapseGiven says that the collapse key stands for a collapse_id of the producer, and not for the fact alone.
	CollapseGiven bool
	Recipient     string // in normal form
	Content       json.RawMessage
	OccurredAt    time.Time
	Date          time.Time // the date that the message bears: admission, or not_before when that is later
}

// Attempt is one claim's send.
type Attempt struct {
	IntentID    string // for logs and for the provider's reference fields
	Generation  int32  // the claim's fencing token
	EffectKey   string
	CollapseKey string
	Recipient   string
	Rendered    []byte    // as Render returned it; shared, must not be changed
	ExpiresAt   time.Time // zero: never. Passed on as the provider's TTL where it has one
	Priority    string    // "high", "normal", "low"
}

// Refusal says why a request cannot be admitted. Message is a sentence that says what to do, free of the value itself.
type Refusal struct {
	Code    string // one of the codes below
	Field   string // "recipient", "content.subject" …
	Message string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Field + ": " + r.Message }

// Codes of refusals that channels make. They are part of the wire contract (package dispatch/wire lists all codes).
const (
	CodeRecipientInvalid = "recipient_invalid"
	CodeContentInvalid   = "content_invalid"
	CodeContentTooLarge  = "content_too_large"
)
