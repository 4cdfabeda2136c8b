package intents

import (
	"time"

	"github.com/onebell/onebell/channels"
)

// Transition is a proposed change of an intent that its claimer makes. Only the constructors below make one.
//
// Where To is Pending and a newer revision was admitted meanwhile, the store writes Superseded instead, or Unknown if
// the intent is in doubt: an older revision is never sent after a newer one.
type Transition struct {
	to            State
	delay         time.Duration
	counted       bool
	doubt         bool
	code, message string
	providerID    string
	deadRecipient bool
}

// Succeed: the provider accepted the effect.
func Succeed(o channels.Outcome) Transition {
	return Transition{to: Succeeded, counted: true, code: o.Code(), message: o.Message(), providerID: o.ProviderID()}
}

// Reject: the provider will never take it.
func Reject(o channels.Outcome) Transition {
	return Transition{to: Rejected, counted: true, code: o.Code(), message: o.Message(), deadRecipient: o.DeadRecipient()}
}

// Retry: this attempt provably had no effect; try again after delay. counted says whether it uses up an attempt.
func Retry(o channels.Outcome, delay time.Duration, counted bool) Transition {
	return Transition{to: Pending, delay: delay, counted: counted, code: o.Code(), message: o.Message()}
}

// Resend: nobody knows whether it happened, and the contract says that a repeat is harmless: same keys, same bytes.
// From here on the intent is in doubt, and the next attempt is a possible duplicate.
func Resend(o channels.Outcome, delay time.Duration, counted bool) Transition {
	return Transition{to: Pending, delay: delay, counted: counted, doubt: true, code: o.Code(), message: o.Message()}
}

// Park: nobody knows whether it happened, and a repeat could be seen: it waits for evidence or a person.
func Park(code, message string, counted bool) Transition {
	return Transition{to: UnknownState, counted: counted, doubt: true, code: code, message: message}
}

// Exhaust: provably nothing happened, and attempts or time are used up.
func Exhaust(code, message string) Transition {
	return Transition{to: Exhausted, counted: true, code: code, message: message}
}

// Expire: provably nothing happened, and it would come too late now.
func Expire() Transition {
	return Transition{to: Expired, code: "expired", message: "expires_at passed before the effect"}
}

// HandBack: the claim was never used.
func HandBack(reason string) Transition {
	return Transition{to: Pending, code: "handed-back", message: reason}
}

// To returns the state proposed.
func (t Transition) To() State { return t.to }

// Delay returns the time until the next attempt.
func (t Transition) Delay() time.Duration { return t.delay }

// Counted reports whether the attempt counts against MaxAttempts.
func (t Transition) Counted() bool { return t.counted }

// Doubt reports whether the attempt may have been applied. A false Doubt never clears an earlier one.
func (t Transition) Doubt() bool { return t.doubt }

// PossibleDuplicate reports whether the next attempt, made without a person's decision, may repeat an effect.
func (t Transition) PossibleDuplicate() bool { return t.doubt && t.to == Pending }

// Code returns the reason code to be stored.
func (t Transition) Code() string { return t.code }

// Message returns the sentence to be stored.
func (t Transition) Message() string { return t.message }

// ProviderID returns the provider's id to be stored; "" keeps the stored one.
func (t Transition) ProviderID() string { return t.providerID }

// DeadRecipient reports whether the recipient's address is dead.
func (t Transition) DeadRecipient() bool { return t.deadRecipient }
