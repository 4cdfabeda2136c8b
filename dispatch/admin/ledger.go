package admin

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/intents"
)

// Ledger is what the API reads. Every method shows committed rows only, one consistent moment per call, changes nothing, and
// may be called again. An error means that nothing is known; the caller says so and never shows a partial answer as a whole
// one. Every method ends with its context.
type Ledger interface {
	// ListIntents returns a page of intents, newest first. Following Page.Next visits every intent that matched when the first
	// page was read and still matches, each once, however many are admitted meanwhile.
	ListIntents(ctx context.Context, f intents.Filter) (intents.Page, error)
	// GetRecord returns an intent with its attempts, changes and evidence; found is false if there is none that is remembered.
	GetRecord(ctx context.Context, id uuid.UUID) (record intents.Record, found bool, err error)
	// ListRefusals returns refusals, newest first; the last one's instant and id are the cursor of the next page.
	ListRefusals(ctx context.Context, f intents.RefusalFilter) ([]intents.Refusal, error)
	// Stats counts the intents created since then, and every open one; of one caller, or of all when caller is "".
	Stats(ctx context.Context, caller string, since time.Time) (intents.Stats, error)
	// ChannelStates returns what the dispatchers share about channels, paused ones above all.
	ChannelStates(ctx context.Context) ([]intents.ChannelState, error)
}
