package intents

import (
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
)

// Question is an UNKNOWN intent whose provider is to be asked what became of it.
type Question struct {
	ID         uuid.UUID
	Generation int32 // an answer counts as long as this is the intent's

	EffectKey   string
	CollapseKey string
	Recipient   string // "" once content was forgotten
	Rendered    []byte // nil once content was forgotten
	Priority    Priority
	ExpiresAt   time.Time // zero: never
	Attempts    int       // attempts that counted so far
	DueSince    time.Time // as in Claim
}

// Answer is what the provider said. It speaks of every attempt made so far, since they have one effect key.
type Answer struct {
	ID         uuid.UUID
	Generation int32  // the Question's
	Actor      string // who asked
	Outcome    channels.Outcome
	Hold       bool // "provably not sent" goes on record and no further: it is not to be sent again (see MayRetry)
}

// MayRetry reports whether attempts and time are left to send again what the provider says it never got; now is the database's
// clock. Where they are not, a person decides. What expired may go back to PENDING: it ends there.
func (p Policy) MayRetry(q Question, now time.Time) bool {
	return q.Attempts < p.Settings.MaxAttempts && !p.tooOld(Claim{DueSince: q.DueSince}, now)
}
