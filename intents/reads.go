package intents

import (
	"time"

	"github.com/google/uuid"
)

// Filter selects intents; zero members do not restrict. Results are newest first.
type Filter struct {
	Caller, Channel, Key string
	Revision             *int32
	State                State
	RecipientHashes      [][]byte // keyed hashes of the forms that the recipient may have been given in; any of them
	ProviderID           string
	Since, Until         time.Time // of creation: Since ≤ created_at < Until
	Before               uuid.UUID // cursor: only intents older than this one
	Limit                int       // 1 … MaxPage
}

// MaxPage bounds a page of any list.
const MaxPage = 500

// Page is one page of intents, newest first. It may be short, or even empty, and still not be the last one: a filter that no
// index serves looks at a bounded number of intents at a time.
type Page struct {
	Intents []Intent
	Next    uuid.UUID // Filter.Before of the next page; zero: there is nothing older
}

// RefusalFilter selects refusals; zero members do not restrict. Results are newest first.
type RefusalFilter struct {
	Caller, Channel, Key, Code string
	Verdict                    VerdictKind
	Since, Until               time.Time
	BeforeAt                   time.Time // cursor, with Before: the instant and
	Before                     uuid.UUID // the id of the last refusal seen
	Limit                      int       // 1 … MaxPage
}

// Record is an intent with everything that is known of it, each list oldest first.
type Record struct {
	Intent   Intent
	Attempts []Attempt
	Changes  []Change
	Evidence []Evidence
}

// ChannelStats counts a channel's intents.
type ChannelStats struct {
	Channel            string
	ByState            map[State]int64 // of the intents created since Stats.Since, and every open one
	PossibleDuplicates int64
	OldestDue          time.Time // zero: nothing is due
	OldestUnknown      time.Time // zero: nothing is unknown
}

// Stats is the state of the service as the database has it.
type Stats struct {
	Now      time.Time // the database's clock
	Since    time.Time
	Channels []ChannelStats
	Refusals map[string]int64 // by code, since Since
	Outbox   int64            // rows that are not on the broker yet
}
