package dispatch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// Store is what dispatch needs of the intent store. Every method is durable when it returns nil. An error means that the
// whole call may or may not have taken effect; unless a method says otherwise, calling it again with the same arguments is
// safe and recognises its own work. Every method bounds its own time by ctx; none holds a connection while it returns.
type Store interface {
	Admitter
	Queue
	Patrol
	Directory
	Outbox
}

// Admitter takes requests in.
type Admitter interface {
	// Admit decides all admissions of a batch, in order; verdicts[i] answers batch.Admissions[i]. Duplicates within one batch are
	// answered as such. Called again with the same tokens it answers as the first call would have.
	Admit(ctx context.Context, batch intents.AdmitBatch) ([]intents.Verdict, error)
	// Refuse stores refusals; a refusal whose ID is stored already is left alone. The stored refusals become events.
	Refuse(ctx context.Context, refusals []intents.Refusal) error
	// Clock returns the database's clock.
	Clock(ctx context.Context) (time.Time, error)
}

// Queue hands out claims and takes settlements.
type Queue interface {
	// Claim claims up to n due intents of the channel. Token is drawn once per wish: a Claim whose reply was lost is called
	// again with the same token and returns what it got, as far as the lease still stands; that lease begins anew with the call.
	Claim(ctx context.Context, req intents.ClaimRequest) ([]intents.Claim, error)
	// Settle writes settlements, each only where the claim's generation and owner still hold the intent in SENDING, and
	// forgets the given claim batches, whose intents are all settled. results[i] answers settlements[i]. A settlement that was
	// already written by an earlier call is answered as written.
	Settle(ctx context.Context, settlements []intents.Settlement, finished []uuid.UUID) ([]intents.Settled, error)
	// Witness records the outcome of a claim that is no longer ours as evidence, and settles the intent where the evidence is
	// definite (see intents.Testimony).
	Witness(ctx context.Context, settlement intents.Settlement) (intents.Settled, error)
}

// Patrol looks after what nobody holds. Its methods may run in every dispatcher at once.
type Patrol interface {
	// DueChannels returns the channels that have something due, paused ones excluded.
	DueChannels(ctx context.Context) ([]string, error)
	// TakeOver re-claims intents of the named channels whose lease ran out, for owner, with a new generation and lease, and records
	// the old claim's attempt as unknown. It is one conditional update; what it returns is to be settled by AfterLease's transition, so
	// it holds neither recipient nor bytes. Besides up to n new claims it returns up to n that owner took over before and has not settled.
	TakeOver(ctx context.Context, channels []string, owner string, lease time.Duration, n int) ([]intents.Claim, error)
	// Unknowns returns up to n UNKNOWN intents of the channel about which its provider is to be asked now, each after growing pauses,
	// whoever asks. A lost reply leaves them to the next pause.
	Unknowns(ctx context.Context, channel string, n int) ([]intents.Question, error)
	// LookedUp records the provider's definite answer as evidence, and settles the intent as intents.Testimony says. The same answer, also
	// another dispatcher's, is recorded once.
	LookedUp(ctx context.Context, answer intents.Answer) (intents.Settled, error)
	// Sweep ends due intents whose time is over: expired ones become EXPIRED, or UNKNOWN when in doubt.
	Sweep(ctx context.Context, n int) (int, error)
	// Pause marks a channel as misconfigured until a try later on; repeated pauses grow from base to limit.
	Pause(ctx context.Context, channel, keyScope, code, reason string, base, limit time.Duration) error
	// Resume ends a pause.
	Resume(ctx context.Context, channel string) error
	// ChannelStates returns the stored state of every channel that has one.
	ChannelStates(ctx context.Context) ([]intents.ChannelState, error)
}

// Directory answers producers.
type Directory interface {
	// FindByIdentity returns the intent of that identity; found is false if there is none that is remembered.
	FindByIdentity(ctx context.Context, id dedup.Identity) (intent intents.Intent, found bool, err error)
	// Cancel cancels the intent if it is PENDING and not in doubt. It returns the state that the intent has afterwards;
	// cancelled is true also when it was cancelled before.
	Cancel(ctx context.Context, id dedup.Identity, actor string) (intent intents.Intent, found, cancelled bool, err error)
}

// Outbox hands out outcome events in an order that keeps each intent's events in sequence.
type Outbox interface {
	// OnDuty takes or renews a duty for owner; false while another holds it.
	OnDuty(ctx context.Context, duty, owner string, lease time.Duration) (bool, error)
	// Events returns the oldest rows of the outbox.
	Events(ctx context.Context, limit int) ([]intents.EventRow, error)
	// Forget deletes rows that are on the broker.
	Forget(ctx context.Context, rows []int64) error
}

// policies derives the policy of every registered channel.
func policies(r *channels.Registry) map[string]intents.Policy {
	out := map[string]intents.Policy{}
	for _, e := range r.All() {
		out[e.Name] = intents.NewPolicy(e.Channel.Contract(), e.Settings)
	}
	return out
}
