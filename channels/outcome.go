package channels

import "time"

// Result is the closed set of ways in which one attempt can end. The zero value is Unknown, so that a forgotten
// assignment can never claim that something did, or did not, happen.
type Result uint8

// Results.
const (
	// Unknown: bytes may have reached the provider and nobody knows what it did with them.
	Unknown Result = iota
	// Accepted: the provider said that it took the notification. Accepted is not delivered.
	Accepted
	// Refused: the provider will never take this notification.
	Refused
	// NotSent: provably nothing was applied; trying again is safe.
	NotSent
	// Throttled: provably nothing was applied, and the provider asked to wait.
	Throttled
	// Misconfigured: provably nothing was applied, and nothing will be until somebody mends the channel
	// (credentials, account). It says nothing about this notification.
	Misconfigured
)

var resultNames = [...]string{"unknown", "accepted", "refused", "not-sent", "throttled", "misconfigured"}

func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return resultNames[Unknown]
}

// Phase is how far an attempt got on the wire.
type Phase string

// Phases, in order.
const (
	PhaseNone      Phase = ""          // nothing was opened
	PhaseConnect   Phase = "connect"   // resolving, dialling, TLS, greeting, login
	PhaseRequest   Phase = "request"   // part of the request was written, but not so much that the provider could act on it
	PhaseCommitted Phase = "committed" // enough was written for the provider to act (HTTP request headers, the final dot)
	PhaseReply     Phase = "reply"     // a reply was read
)

// Outcome is how one attempt ended. Make it with the constructors below; the zero value is "unknown".
// Code and Message come from the provider: the constructors make them valid UTF-8 of one line without control or
// bidirectional characters and cut them to MaxCode and MaxMessage bytes. Adapters must not put recipients or secrets into
// either.
type Outcome struct {
	result        Result
	phase         Phase
	providerID    string
	code, message string
	wait          time.Duration
	deadRecipient bool
}

// Bounds of what an outcome carries of a provider's words, in bytes.
const (
	MaxMessage = 512 // also of the provider's id
	MaxCode    = 64
)

// OutcomeAccepted: the provider took it; providerID may be empty when it gave none or its body could not be read.
func OutcomeAccepted(providerID, code, message string) Outcome {
	return Outcome{result: Accepted, phase: PhaseReply, providerID: clean(providerID), code: cleanCode(code), message: clean(message)}
}

// OutcomeRefused: final, by a definite reply.
func OutcomeRefused(code, message string) Outcome { return OutcomeRefusedAt(PhaseReply, code, message) }

// OutcomeRefusedAt: final, and already decided at that phase: on our side (an address that may not be connected to), or by
// what the provider said before it was asked (it lacks an extension that the message needs).
func OutcomeRefusedAt(phase Phase, code, message string) Outcome {
	return Outcome{result: Refused, phase: phase, code: cleanCode(code), message: clean(message)}
}

// OutcomeDeadRecipient: final, and the recipient's address should not be used again.
func OutcomeDeadRecipient(code, message string) Outcome {
	o := OutcomeRefused(code, message)
	o.deadRecipient = true
	return o
}

// OutcomeNotSent: provably nothing happened.
func OutcomeNotSent(phase Phase, code, message string) Outcome {
	return Outcome{result: NotSent, phase: phase, code: cleanCode(code), message: clean(message)}
}

// OutcomeThrottled: provably nothing happened; wait is what the provider asked for, already clamped, 0 if it did not say.
func OutcomeThrottled(wait time.Duration, code, message string) Outcome {
	return Outcome{result: Throttled, phase: PhaseReply, wait: wait, code: cleanCode(code), message: clean(message)}
}

// OutcomeMisconfigured: provably nothing happened; the channel needs mending.
func OutcomeMisconfigured(phase Phase, code, message string) Outcome {
	return Outcome{result: Misconfigured, phase: phase, code: cleanCode(code), message: clean(message)}
}

// OutcomeUnknown: nobody knows.
func OutcomeUnknown(phase Phase, code, message string) Outcome {
	return Outcome{result: Unknown, phase: phase, code: cleanCode(code), message: clean(message)}
}

// WithWait returns the outcome with what the provider asked to wait, already clamped: a 503 can carry a Retry-After, too.
func (o Outcome) WithWait(wait time.Duration) Outcome {
	o.wait = max(wait, 0)
	return o
}

// Result returns the kind of the outcome.
func (o Outcome) Result() Result { return o.result }

// Phase returns how far the attempt got.
func (o Outcome) Phase() Phase { return o.phase }

// ProviderID returns the provider's own id, or "".
func (o Outcome) ProviderID() string { return o.providerID }

// Code returns the provider's machine-readable code ("550", "UNREGISTERED", "dial").
func (o Outcome) Code() string { return o.code }

// Message returns the provider's sentence, cleaned and bounded.
func (o Outcome) Message() string { return o.message }

// Wait returns how long the provider asked to wait; 0 if it did not say.
func (o Outcome) Wait() time.Duration { return o.wait }

// DeadRecipient reports whether the recipient's address is dead.
func (o Outcome) DeadRecipient() bool { return o.deadRecipient }

// Definite reports whether the outcome says for certain what happened.
func (o Outcome) Definite() bool { return o.result != Unknown }
