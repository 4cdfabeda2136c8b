package intents

import (
	"time"

	"github.com/onebell/onebell/channels"
)

// Policy is everything about a channel that decides what an outcome does.
type Policy struct {
	Contract     channels.Contract
	Settings     channels.Settings
	MaxTakeovers int           // leases that may run out before a resendable intent is parked; bounded apart from MaxAttempts
	KeyMargin    time.Duration // a keyed resend must begin this much before the key window closes; at least as long as an attempt may take
	BackoffBase  time.Duration
	BackoffMax   time.Duration
}

// NewPolicy returns the policy of a channel with the service's defaults.
func NewPolicy(c channels.Contract, s channels.Settings) Policy {
	return Policy{
		Contract: c, Settings: s, MaxTakeovers: 10,
		KeyMargin:   max(min(c.KeyWindow/10, 5*time.Minute), c.AttemptTimeout),
		BackoffBase: time.Second, BackoffMax: 5 * time.Minute,
	}
}

// Next decides what the outcome of an attempt does to its intent. It is pure: now is the database's clock, and jitter, in
// [0,1), comes from the caller. See the table in doc.go.
func Next(p Policy, c Claim, o channels.Outcome, now time.Time, jitter float64) Transition {
	switch o.Result() {
	case channels.Accepted:
		return Succeed(o)
	case channels.Refused:
		if c.Doubt {
			return Park("refused-in-doubt", "an earlier attempt may have been accepted; the last one was refused: "+o.Code()+" "+o.Message(), true)
		}
		return Reject(o)
	case channels.Misconfigured:
		return p.retry(c, o, now, jitter, false)
	case channels.NotSent, channels.Throttled:
		return p.retry(c, o, now, jitter, true)
	default:
		return p.unknown(c, o, now, jitter)
	}
}

// BeforeSend decides, just before the effect, whether it may still begin: now is the database's clock, local the worker's
// own. It returns false and what to do instead when it may not.
func BeforeSend(p Policy, c Claim, now, local time.Time) (instead Transition, ok bool) {
	if !c.Trust.MayStart(local) {
		return HandBack("the claimer came too late to its claim"), false
	}
	if late(c, now) {
		return p.end(c, Expire(), false), false
	}
	if c.Forgotten {
		return p.end(c, Exhaust("content-erased", "its content was erased, so there is nothing to send"), false), false
	}
	if code, message := p.repeatForbidden(c, now); c.Doubt && code != "" {
		return Park(code, message, false), false
	}
	return Transition{}, true
}

// AfterLease decides what a lease that ran out does: an unknown outcome that uses up no attempt, bounded apart.
func AfterLease(p Policy, c Claim, now time.Time) Transition {
	o := LeaseOver()
	if code, message := p.repeatForbidden(c, now); code != "" {
		return Park(code, message, false)
	}
	if late(c, now) {
		return Park("expired-unknown", "nobody knows whether it was sent, and it is too late to send it again", false)
	}
	if p.tooOld(c, now) {
		return Park("time-used-up", "nobody knows whether it was sent, and the time for retrying is over", false)
	}
	if c.Takeovers > p.MaxTakeovers {
		return Park("takeovers-used-up", "its lease ran out too often; nobody knows whether it was sent", false)
	}
	return Resend(o, 0, false)
}

// LeaseOver is the outcome of an attempt whose owner was never heard of again.
func LeaseOver() channels.Outcome {
	return channels.OutcomeUnknown(channels.PhaseNone, "lease-over", "the dispatcher that held the claim did not settle it in time")
}

func (p Policy) retry(c Claim, o channels.Outcome, now time.Time, jitter float64, counted bool) Transition {
	delay := max(o.Wait(), p.backoff(c.Attempts, jitter))
	at := now.Add(delay)
	if code, message := p.repeatForbidden(c, at); c.Doubt && code != "" {
		// It would wait for a send that may not begin: let evidence or a person have it now.
		return Park(code, message, counted)
	}
	switch {
	case late(c, at):
		return p.end(c, Expire(), counted)
	case counted && c.Attempts+1 >= p.Settings.MaxAttempts:
		return p.end(c, Exhaust("attempts-used-up", "every attempt failed before the effect; the last: "+o.Code()+" "+o.Message()), counted)
	case counted && p.tooOld(c, at):
		return p.end(c, Exhaust("time-used-up", "it could not be sent in the time allowed; the last attempt: "+o.Code()+" "+o.Message()), counted)
	}
	return Retry(o, delay, counted)
}

func (p Policy) unknown(c Claim, o channels.Outcome, now time.Time, jitter float64) Transition {
	delay := max(o.Wait(), p.backoff(c.Attempts, jitter))
	at := now.Add(delay)
	if code, message := p.repeatForbidden(c, at); code != "" {
		if code == codeVisible {
			code, message = o.Code(), o.Message()
		}
		return Park(code, message, true)
	}
	switch {
	case late(c, at):
		return Park("expired-unknown", "nobody knows whether it was sent, and it is too late to send it again", true)
	case c.Attempts+1 >= p.Settings.MaxAttempts:
		return Park("attempts-used-up", "nobody knows whether it was sent, and the attempts are used up", true)
	case p.tooOld(c, at):
		return Park("time-used-up", "nobody knows whether it was sent, and the time for retrying is over", true)
	}
	return Resend(o, delay, true)
}

const codeVisible = "repeat-visible"

// repeatForbidden says why an effect in doubt may not be repeated at that instant; "" if it may.
func (p Policy) repeatForbidden(c Claim, at time.Time) (code, message string) {
	switch p.guarantee(c) {
	case channels.Keyed:
		if !at.Before(c.FirstUsedAt.Add(p.Contract.KeyWindow - p.KeyMargin)) {
			return "key-window-over", "nobody knows whether it was sent, and the provider may have forgotten the key"
		}
		if c.KeyScope != p.Contract.KeyScope {
			return "key-scope-changed", "nobody knows whether it was sent, and the key belongs to another account or key field"
		}
		return "", ""
	case channels.Replaceable:
		if p.Settings.OnUnknown != channels.OnUnknownHold {
			return "", ""
		}
	}
	return codeVisible, "nobody knows whether it was sent, and a repeat would be seen"
}

// guarantee is what protects a repeat of this intent: what it was admitted under, as far as the channel still gives it. Its bytes
// were rendered under that contract, so they need not hold what a later one relies on.
func (p Policy) guarantee(c Claim) channels.Guarantee {
	if c.Guarantee != p.Contract.Guarantee {
		return channels.DuplicateVisible
	}
	return c.Guarantee
}

// end turns the end of the road into UNKNOWN while the intent is in doubt.
func (p Policy) end(c Claim, t Transition, counted bool) Transition {
	if c.Doubt {
		return Park(t.code+"-in-doubt", "an earlier attempt may have been accepted; "+t.message, counted)
	}
	t.counted = counted
	return t
}

func late(c Claim, at time.Time) bool { return !c.ExpiresAt.IsZero() && !at.Before(c.ExpiresAt) }

func (p Policy) tooOld(c Claim, at time.Time) bool {
	return p.Settings.MaxAge > 0 && at.After(c.DueSince.Add(p.Settings.MaxAge))
}

// backoff is exponential, with jitter over its upper half: never at once, never in step.
func (p Policy) backoff(attempts int, jitter float64) time.Duration {
	d := min(p.BackoffBase, p.BackoffMax)
	for range attempts {
		if d > p.BackoffMax/2 {
			d = p.BackoffMax
			break
		}
		d *= 2
	}
	return d/2 + time.Duration(jitter*float64(d/2))
}
