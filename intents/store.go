package intents

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// AdmitBatch is one statement's worth of admissions.
type AdmitBatch struct {
	Admissions []Admission
	Batch      uuid.UUID     // names the claim batch of those with ClaimNow
	Owner      string        // claims them
	Lease      time.Duration // of those claims
}

// ClaimRequest asks for claims of one channel.
type ClaimRequest struct {
	Channel  string
	KeyScope string // of the channel's contract: that of a first use
	// KeyWindow is the contract's, too. A key is in use from the first attempt that may have reached the provider, also one that it refused to
	// take up: it may have taken note of the key. What lies further back than the window it has forgotten.
	KeyWindow time.Duration
	Owner     string
	Lease     time.Duration
	N         int
	Token     uuid.UUID
}

// ChannelState is what all dispatchers share about a channel.
type ChannelState struct {
	Channel     string
	Paused      bool // now, by the database's clock
	PausedUntil time.Time
	Code        string
	Reason      string
	Since       time.Time
	KeyScope    string
}

// EventRow is one row of the outbox: the events of one statement, at most one per intent. Each is the JSON of a wire.Event.
type EventRow struct {
	ID     int64
	Events []json.RawMessage
}
