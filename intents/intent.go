package intents

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
)

// Priority orders due intents of one channel.
type Priority int16

// Priorities; the lower value goes first.
const (
	High   Priority = 0 // before all others
	Normal Priority = 1 // where the producer says nothing
	Low    Priority = 2 // when nothing else is due
)

// String returns "high", "normal" or "low".
func (p Priority) String() string { return [...]string{"high", "normal", "low"}[max(0, min(p, 2))] }

// Admission is one request, checked and rendered, that asks to become an intent.
type Admission struct {
	// Token is drawn once per arrival and becomes part of the intent's id, so that an admission whose COMMIT was
	// lost is recognised as one's own when it is tried again.
	Token uuid.UUID

	Identity    dedup.Identity
	Meaning     dedup.Meaning
	Fingerprint dedup.Fingerprint

	Guarantee     channels.Guarantee
	EffectKey     string
	CollapseKey   string
	KeyScope      string
	RecipientHash []byte // keyed; finds a recipient after it was forgotten
	Rendered      []byte // what every attempt will send

	NotBefore   time.Time // zero: now
	ExpiresAt   time.Time // zero: never
	Priority    Priority
	Labels      map[string]string
	Traceparent string

	// ClaimNow asks for the claim in the same statement. It is granted only to a new fact that is due; the lease is AdmitBatch's.
	ClaimNow bool
}

// VerdictKind is the answer to a request.
type VerdictKind string

// Verdicts.
const (
	Accepted   VerdictKind = "accepted"   // a new intent stands
	Duplicate  VerdictKind = "duplicate"  // an intent with that identity and meaning stood already
	Conflict   VerdictKind = "conflict"   // an intent with that identity and another meaning stands
	Stale      VerdictKind = "stale"      // the fact is so old that its key may have been forgotten
	Superseded VerdictKind = "superseded" // a higher revision of the fact was admitted before
	Refused    VerdictKind = "refused"    // it can never be admitted as it is
)

// CodeInternal is the code of a Refused verdict that the store gives: the database would not take a value that passed every check
// before it. Only that admission is refused, its neighbours are not.
const CodeInternal = "internal"

// Verdict is what admission said of one Admission.
type Verdict struct {
	Kind   VerdictKind
	Intent uuid.UUID // the new intent, or the existing one of that identity; superseded: the newer one; zero for stale and refused
	State  State     // its present state
	Fields []string  // conflict: the members of the meaning that differ
	Newer  int32     // superseded: the higher revision that stands
	Code   string    // refused: CodeInternal
	// Claim is set when the intent was claimed at admission.
	Claim *Claim
}

// Claim is the right to make one attempt. Generation is its fencing token: a settlement that does not carry the intent's
// present generation changes nothing.
type Claim struct {
	ID         uuid.UUID
	Generation int32
	Identity   dedup.Identity

	Recipient   string
	Rendered    []byte
	EffectKey   string
	CollapseKey string
	Priority    Priority
	ExpiresAt   time.Time // zero: never
	Traceparent string
	Guarantee   channels.Guarantee // of the contract under which it was admitted and its bytes were rendered

	CreatedAt   time.Time // of the intent; database clock
	DueSince    time.Time // admission, or not_before when later: MaxAge counts from here
	Doubt       bool      // an earlier attempt may have been applied; only an accepted outcome or a person ends the doubt
	FirstUsedAt time.Time // when the effect key was first used by an attempt still in doubt, else by this claim; database clock
	KeyScope    string    // the scope under which it was admitted and used; one that no channel has if these are two
	Attempts    int       // attempts that counted so far, this one excluded
	Takeovers   int       // leases that ran out so far
	Forgotten   bool      // its content was erased: there is nothing to send

	ClaimedAt time.Time // database clock
	Batch     uuid.UUID // the admission batch that holds the lease; zero when claimed from the agenda
	Trust     Trust     // local; set by the claimer, not by the store
}

// Now estimates the database's clock at the local instant now, from the reading taken before the claim was issued.
// It never runs behind the database by more than clock drift, so a window it says is open, is open.
func (c Claim) Now(now time.Time) time.Time { return c.ClaimedAt.Add(now.Sub(c.Trust.Before)) }

// Settlement is a transition proposed for a claim, with the attempt that it rests on.
type Settlement struct {
	ID         uuid.UUID
	Generation int32
	Owner      string
	Transition Transition
	Outcome    channels.Outcome
	Took       time.Duration // length of the attempt
	Ended      time.Time     // its end, by the local clock; zero: just now. Settling can be late, the record is not
	NoAttempt  bool          // nothing was tried (handed back, expired before the effect): no attempt is recorded
}

// Settled is what became of a Settlement.
type Settled struct {
	ID      uuid.UUID
	State   State // the state written, or the present one when Fenced
	Fenced  bool  // the claim was no longer ours and this settlement changed nothing
	Missing bool  // no such intent
}

// Intent is what the reads return; the names are those of the admin API.
type Intent struct {
	ID                 uuid.UUID
	Identity           dedup.Identity
	State              State
	Guarantee          channels.Guarantee
	Generation         int32
	Recipient          string // "" once content was forgotten
	CollapseID         string
	EffectKey          string
	OccurredAt         time.Time
	CreatedAt          time.Time
	UpdatedAt          time.Time
	NotBefore          time.Time
	ExpiresAt          time.Time
	NextAttemptAt      time.Time // zero unless pending
	LeaseUntil         time.Time // zero unless sending
	FirstUsedAt        time.Time
	Owner              string
	ProviderID         string
	Code               string
	Message            string
	Attempts           int
	Takeovers          int
	PossibleDuplicates int
	Doubt              bool
	DeadRecipient      bool
	SupersededBy       uuid.UUID
	Priority           Priority
	Labels             map[string]string
}

// Attempt is one recorded attempt.
type Attempt struct {
	Generation int32
	Owner      string
	StartedAt  time.Time
	EndedAt    time.Time
	Result     string // a name of channels.Result
	Phase      string
	Code       string
	Message    string
	ProviderID string
	State      State // the state that the settlement led to
}

// Change is a transition that did not come from an attempt: takeover, cancel, expiry, supersession, evidence, a decision.
type Change struct {
	Generation int32 // after the change
	From, To   State
	At         time.Time
	Cause      string // "takeover", "cancel", "expired", "superseded", "evidence", "handed-back" …
	Actor      string // who: an owner, a caller, an operator
	Detail     string
}

// Evidence is one append-only record of what somebody learned about an intent's effect.
type Evidence struct {
	At         time.Time
	Source     string // "late-finisher", "look-up", "provider-event", "record", "operator"
	Generation int32  // of the claim it speaks of; 0 if unknown
	Result     string
	Code       string
	Message    string
	ProviderID string
	Settled    bool // this evidence settled the intent
}

// Refusal is a request that was not admitted, or a message that could not even be read.
type Refusal struct {
	ID        uuid.UUID
	At        time.Time
	Verdict   VerdictKind
	Code      string
	Message   string
	Fields    []string
	Caller    string
	Channel   string
	Key       string
	Revision  int32
	Intent    uuid.UUID // the intent that stands in the way, if any
	Subject   string
	StreamSeq uint64 // 0 for submit requests
	Sample    string // for unreadable messages: shape and size, with every value struck out
}
