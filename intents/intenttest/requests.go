package intenttest

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// Two owners of claims.
const (
	Me   = "host-a/1"
	Them = "host-b/2"
)

// Lease is the lease of everything that this kit claims: far longer than a test, so that a lease ends by Subject.Pass alone.
const Lease = time.Hour

// Happened is the time of the facts that Ask asks for.
var Happened = time.Now().UTC().Add(-time.Minute).Truncate(time.Microsecond)

// Ask is an admission of the key's revision on channel "mail"; how may change it before its fingerprint is taken.
func Ask(key string, revision int32, how ...func(*intents.Admission)) intents.Admission {
	a := intents.Admission{
		Token:     uuid.Must(uuid.NewV7()),
		Identity:  dedup.Identity{Caller: "shop", Channel: "mail", Key: dedup.Key(key), Revision: revision},
		Meaning:   dedup.Meaning{Recipient: "ada@example.org", Content: []byte(`{"text":"hello"}`), OccurredAt: Happened},
		Guarantee: channels.DuplicateVisible, EffectKey: "effect-" + key, CollapseKey: "collapse-" + key, KeyScope: "scope",
		Rendered: []byte("rendered " + key), Priority: intents.Normal,
	}
	for _, h := range how {
		h(&a)
	}
	if a.Fingerprint == (dedup.Fingerprint{}) {
		a.Fingerprint = a.Meaning.Fingerprint()
	}
	hash := sha256.Sum256([]byte(a.Meaning.Recipient))
	a.RecipientHash = hash[:]
	return a
}

// Text changes what the request says.
func Text(s string) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Meaning.Content = fmt.Appendf(nil, `{"text":%q}`, s) }
}

// On puts the request on another channel.
func On(channel string) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Identity.Channel = channel }
}

// ClaimNow asks for the claim at admission, as a keyed channel does.
func ClaimNow(a *intents.Admission) { a.ClaimNow, a.Guarantee = true, channels.Keyed }

// ExpiresIn gives the request that long.
func ExpiresIn(d time.Duration) func(*intents.Admission) {
	return func(a *intents.Admission) { a.ExpiresAt = time.Now().Add(d) }
}

// NotBefore delays the request.
func NotBefore(d time.Duration) func(*intents.Admission) {
	return func(a *intents.Admission) { a.NotBefore = time.Now().Add(d) }
}

// Urgency sets the priority.
func Urgency(p intents.Priority) func(*intents.Admission) {
	return func(a *intents.Admission) { a.Priority = p }
}

// Batch is a batch of Me's.
func Batch(as ...intents.Admission) intents.AdmitBatch {
	return intents.AdmitBatch{Admissions: as, Batch: uuid.New(), Owner: Me, Lease: Lease}
}

// Wish asks for claims.
func Wish(channel, owner string, n int) intents.ClaimRequest {
	return intents.ClaimRequest{Channel: channel, KeyScope: "scope", Owner: owner, Lease: Lease, N: n, Token: uuid.New()}
}

func settlement(c intents.Claim, owner string, t intents.Transition, o channels.Outcome) intents.Settlement {
	return intents.Settlement{ID: c.ID, Generation: c.Generation, Owner: owner, Transition: t, Outcome: o, Took: 20 * time.Millisecond}
}

// Succeeded settles a claim of owner's as accepted by the provider.
func Succeeded(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeAccepted("provider-7", "250", "taken")
	return settlement(c, owner, intents.Succeed(o), o)
}

// Rejected settles a claim as refused for good.
func Rejected(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeDeadRecipient("550", "no such user")
	return settlement(c, owner, intents.Reject(o), o)
}

// NotSent settles a claim as provably not sent, to be tried again after delay.
func NotSent(c intents.Claim, owner string, delay time.Duration) intents.Settlement {
	o := channels.OutcomeNotSent(channels.PhaseConnect, "dial", "refused")
	return settlement(c, owner, intents.Retry(o, delay, true), o)
}

// Resent settles a claim as unknown on a channel where a repeat is harmless.
func Resent(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "no reply")
	return settlement(c, owner, intents.Resend(o, 0, true), o)
}

// Parked settles a claim as unknown on a channel where a repeat would be seen.
func Parked(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "no reply")
	return settlement(c, owner, intents.Park(o.Code(), o.Message(), true), o)
}

// Exhausted settles a claim as failed too often.
func Exhausted(c intents.Claim, owner string) intents.Settlement {
	o := channels.OutcomeNotSent(channels.PhaseConnect, "dial", "refused")
	return settlement(c, owner, intents.Exhaust("attempts-used-up", "every attempt failed"), o)
}

// Expired settles a claim as too late, before anything was tried.
func Expired(c intents.Claim, owner string) intents.Settlement {
	s := settlement(c, owner, intents.Expire(), channels.Outcome{})
	s.NoAttempt = true
	return s
}

// HandedBack gives a claim back unused.
func HandedBack(c intents.Claim, owner string) intents.Settlement {
	s := settlement(c, owner, intents.HandBack("shutting down"), channels.Outcome{})
	s.NoAttempt = true
	return s
}

// LeaseOver settles what TakeOver returned: parked, or to be sent again.
func LeaseOver(c intents.Claim, owner string, park bool) intents.Settlement {
	o := intents.LeaseOver()
	t := intents.Resend(o, 0, false)
	if park {
		t = intents.Park("repeat-visible", "nobody knows whether it was sent", false)
	}
	s := settlement(c, owner, t, o)
	s.NoAttempt = true
	return s
}
