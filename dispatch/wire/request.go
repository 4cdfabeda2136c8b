package wire

import (
	"encoding/json"
	"time"

	"github.com/onebell/onebell/dedup"
)

// Limits of a request. Sizes are in bytes.
const (
	// MaxPayload is what a payload may have: the broker's usual limit of 1 MiB counts headers too, and these need room.
	MaxPayload    = 1<<20 - 16<<10
	MaxRecipient  = 4096
	MaxCollapseID = 200
	MaxLabels     = 16
	MaxLabelName  = 64
	MaxLabelValue = 256
)

// Priority orders the due requests of one channel.
type Priority string

// Priorities.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// Request asks for one notification about one fact. Caller and channel are in the subject.
type Request struct {
	Key        dedup.Key         // the fact; required
	Revision   int32             // ≥ 0; a fact whose content changes is a stream of revisions
	OccurredAt time.Time         // when the fact happened, the same on every retry; required; kept to the microsecond
	Recipient  string            // as the channel type wants it; required
	Content    json.RawMessage   // a JSON object as the channel type wants it; required
	CollapseID string            // what newer notifications replace; "": the revisions of the fact
	NotBefore  time.Time         // zero: at once
	ExpiresAt  time.Time         // zero: never. Not sent from then on
	Priority   Priority          // "" means Normal
	Labels     map[string]string // for finding and counting; no meaning
}

// requestJSON is a Request as it is written.
type requestJSON struct {
	Key        dedup.Key         `json:"key"`
	Revision   int32             `json:"revision"`
	OccurredAt time.Time         `json:"occurred_at"`
	Recipient  string            `json:"recipient"`
	Content    json.RawMessage   `json:"content"`
	CollapseID string            `json:"collapse_id,omitempty"`
	NotBefore  *time.Time        `json:"not_before,omitempty"`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty"`
	Priority   Priority          `json:"priority,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Encode writes the payload and checks it as the dispatcher will. The error is a *Refusal.
func (r Request) Encode() ([]byte, error) {
	if len(r.Content) == 0 {
		return nil, missing("content")
	}
	if r.OccurredAt.IsZero() {
		return nil, missing("occurred_at")
	}
	if err := dedup.CheckJSON(r.Content); err != nil {
		e := fromInput(err)
		e.Field = within("content", e.Field)
		return nil, e
	}
	// encoding/json would write U+FFFD in the place of broken bytes, and two different recipients could become one.
	for field, text := range map[string]string{"recipient": r.Recipient, "collapse_id": r.CollapseID} {
		if err := checkUTF8(field, text); err != nil {
			return nil, err
		}
	}
	if err := checkLabels(r.Labels); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(requestJSON{
		Key: r.Key, Revision: r.Revision, OccurredAt: dedup.Instant(r.OccurredAt), Recipient: r.Recipient, Content: r.Content,
		CollapseID: r.CollapseID, NotBefore: optional(r.NotBefore), ExpiresAt: optional(r.ExpiresAt), Priority: r.Priority, Labels: r.Labels,
	})
	if err != nil {
		return nil, refuse(CodeTimeInvalid, "", "a time of the request cannot be written; use years from 0 to 9999")
	}
	if _, err := Decode(payload); err != nil {
		return nil, err
	}
	return payload, nil
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = dedup.Instant(t)
	return &t
}

func missing(field string) *Refusal {
	return refuse(CodeMemberMissing, field, "this member is required; add it")
}

func within(parent, path string) string {
	switch {
	case path == "":
		return parent
	case path[0] == '[':
		return parent + path
	}
	return parent + "." + path
}
