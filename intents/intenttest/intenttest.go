// Package intenttest is the test kit of the intent store: requests and settlements to feed one, a small model that says what
// ought to come of them, and a suite that every store passes.
package intenttest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
)

// Store is the part of dispatch.Store that the suite drives; the promises stand there.
type Store interface {
	Admit(ctx context.Context, batch intents.AdmitBatch) ([]intents.Verdict, error)
	Claim(ctx context.Context, req intents.ClaimRequest) ([]intents.Claim, error)
	Settle(ctx context.Context, settlements []intents.Settlement, finished []uuid.UUID) ([]intents.Settled, error)
	Witness(ctx context.Context, settlement intents.Settlement) (intents.Settled, error)
	DueChannels(ctx context.Context) ([]string, error)
	TakeOver(ctx context.Context, channels []string, owner string, lease time.Duration, n int) ([]intents.Claim, error)
	Sweep(ctx context.Context, n int) (int, error)
	Pause(ctx context.Context, channel, keyScope, code, reason string, base, limit time.Duration) error
	Resume(ctx context.Context, channel string) error
	ChannelStates(ctx context.Context) ([]intents.ChannelState, error)
	FindByIdentity(ctx context.Context, id dedup.Identity) (intent intents.Intent, found bool, err error)
	Cancel(ctx context.Context, id dedup.Identity, actor string) (intent intents.Intent, found, cancelled bool, err error)
	OnDuty(ctx context.Context, duty, owner string, lease time.Duration) (bool, error)
}

// Subject is one store under test, empty at the start.
type Subject struct {
	Store Store
	// Pass lets d pass for everything that is stored.
	Pass func(t testing.TB, d time.Duration)
	// Attempts returns an intent's attempts on record, oldest first.
	Attempts func(t testing.TB, id uuid.UUID) []intents.Attempt
}

// Run runs the suite; open makes a new subject for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*driver){
		"S1/EveryStateAnswersDuplicateOrConflict": everyStateAnswers,
		"S5/AgeCountsFromTheClaim":                ageCountsFromTheClaim,
		"W5/DeathsCountApartFromFailures":         deathsCountApart,
		"W5/RejectedKeyStaysRejected":             rejectedStays,
		"W5/SlowWorkerIsFenced":                   slowWorkerIsFenced,
		"B2/SameKeyTwiceInOneBatch":               sameKeyTwice,
		"B8/Microseconds":                         microseconds,
		"X2/TwoCallersOneKey":                     twoCallers,
		"O3/UnknownChannelIsLeftAlone":            unknownChannel,
		"L1/HandedBackIsClaimableAgain":           handedBack,
		"D5/NoTakeoverBeforeTheLease":             noEarlyTakeover,
		"Revisions/NewestWins":                    newestWins,
		"Revisions/OlderOnTheWire":                olderOnTheWire,
		"Revisions/OlderInDoubt":                  olderInDoubt,
		"Claim/MostUrgentFirst":                   mostUrgentFirst,
		"Claim/SameTokenSameClaims":               sameTokenSameClaims,
		"Claim/KeyWindowCountsFromFirstDoubt":     firstUse,
		"Claim/UnderWhatItWasAdmitted":            admittedUnder,
		"Claim/AtAdmission":                       claimAtAdmission,
		"Settle/AgainIsRecognised":                settleAgain,
		"Settle/UnfinishedBatchIsKept":            unfinishedBatch,
		"Witness/Testimony":                       testimony,
		"Witness/DuringTheTakeover":               testimonyDuringTakeover,
		"Witness/DuringTheResend":                 testimonyDuringResend,
		"Sweep/ExpiredOrInDoubt":                  sweepTimes,
		"Cancel/OnlyWhatWaits":                    cancelWaiting,
		"Pause/GrowsAndEnds":                      pauseGrows,
		"Duty/OneAtATime":                         dutyOneAtATime,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			test(&driver{t, ctx, open(t)})
		})
	}
}

// driver drives a subject and fails its test on errors.
type driver struct {
	t   *testing.T
	ctx context.Context
	s   Subject
}

func (d *driver) admit(as ...intents.Admission) []intents.Verdict {
	d.t.Helper()
	return d.admitBatch(Batch(as...))
}

func (d *driver) admitBatch(b intents.AdmitBatch) []intents.Verdict {
	d.t.Helper()
	vs, err := d.s.Store.Admit(d.ctx, b)
	if err != nil {
		d.t.Fatal(err)
	}
	return vs
}

func (d *driver) claim(n int) []intents.Claim {
	d.t.Helper()
	return d.claimFor(Wish("mail", Me, n))
}

func (d *driver) claimFor(w intents.ClaimRequest) []intents.Claim {
	d.t.Helper()
	cs, err := d.s.Store.Claim(d.ctx, w)
	if err != nil {
		d.t.Fatal(err)
	}
	return cs
}

func (d *driver) claimOne() intents.Claim {
	d.t.Helper()
	cs := d.claim(10)
	if len(cs) != 1 {
		d.t.Fatalf("%d claims, want 1: %+v", len(cs), cs)
	}
	return cs[0]
}

func (d *driver) settle(s intents.Settlement) intents.Settled {
	d.t.Helper()
	out, err := d.s.Store.Settle(d.ctx, []intents.Settlement{s}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return out[0]
}

func (d *driver) witness(s intents.Settlement) intents.Settled {
	d.t.Helper()
	out, err := d.s.Store.Witness(d.ctx, s)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *driver) takeOver(owner string, channels ...string) []intents.Claim {
	d.t.Helper()
	if len(channels) == 0 {
		channels = []string{"mail"}
	}
	cs, err := d.s.Store.TakeOver(d.ctx, channels, owner, Lease, 100)
	if err != nil {
		d.t.Fatal(err)
	}
	return cs
}

func (d *driver) find(id dedup.Identity) intents.Intent {
	d.t.Helper()
	i, found, err := d.s.Store.FindByIdentity(d.ctx, id)
	if err != nil || !found {
		d.t.Fatalf("%s revision %d: found %v, %v", id.Key, id.Revision, found, err)
	}
	return i
}

func (d *driver) want(key string, revision int32, state intents.State) intents.Intent {
	d.t.Helper()
	i := d.find(Ask(key, revision).Identity)
	if i.State != state {
		d.t.Fatalf("%s revision %d is %s (%s), want %s", key, revision, i.State, i.Code, state)
	}
	return i
}

func (d *driver) wantKinds(vs []intents.Verdict, kinds ...intents.VerdictKind) {
	d.t.Helper()
	for i, v := range vs {
		if v.Kind != kinds[i] {
			d.t.Errorf("verdict %d is %s, want %s: %+v", i, v.Kind, kinds[i], v)
		}
	}
	if len(vs) != len(kinds) {
		d.t.Fatalf("%d verdicts, want %d", len(vs), len(kinds))
	}
}
