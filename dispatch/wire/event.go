package wire

import (
	"encoding/json"
	"time"
)

// What is what an event tells: the state that an intent came to, or the verdict on a request that was not admitted.
type What string

// Whats of intents. "superseded" is also one of requests: Event.Admitted tells them apart.
const (
	WhatSucceeded  What = "succeeded"
	WhatRejected   What = "rejected"
	WhatUnknown    What = "unknown"
	WhatExpired    What = "expired"
	WhatSuperseded What = "superseded"
	WhatCancelled  What = "cancelled"
	WhatExhausted  What = "exhausted"
	WhatAbandoned  What = "abandoned"
)

// Whats of requests that were not admitted.
const (
	WhatConflict What = "conflict"
	WhatStale    What = "stale"
	WhatRefused  What = "refused"
)

// Event tells a caller an outcome. Events are delivered at least once, those of one intent in order; a repeat has the same ID.
type Event struct {
	ID            string    `json:"id"`
	Intent        string    `json:"intent"` // the intent, or the one in the way of a request; ""
	Caller        string    `json:"caller"`
	Channel       string    `json:"channel"`
	Key           string    `json:"key"`
	Revision      int32     `json:"revision"`
	What          What      `json:"what"`
	Admitted      bool      `json:"admitted"` // false: it tells of a request that did not become an intent
	At            time.Time `json:"at"`
	ProviderID    string    `json:"provider_id"`
	Code          string    `json:"code"`
	DeadRecipient bool      `json:"dead_recipient"`

	// Of requests that were not admitted: the sentence that says what to do, and where the request stood in the request stream
	// (Publish returned it; 0 for one that was submitted), because an unreadable one has no key to know it by.
	Message   string `json:"message,omitempty"`
	StreamSeq uint64 `json:"stream_seq,omitempty"`
}

// DecodeEvent reads an event; members that this version does not know are passed over. The error is a *Refusal.
func DecodeEvent(data []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil || e.ID == "" || e.What == "" {
		return Event{}, refuse(CodeInternal, "", "the event cannot be read; is there another service on this subject?")
	}
	return e, nil
}

// Encode writes the event.
func (e Event) Encode() []byte { return encode(e) }
