package dispatch_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/dispatch"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// lagging writes no settlement before it may, and counts the rounds of the patrol.
type lagging struct {
	dispatch.Store
	may   chan struct{}
	calls atomic.Int64
	lease atomic.Int64 // of the last takeover
}

func (l *lagging) Settle(x ctx, ss []intents.Settlement, finished []uuid.UUID) ([]intents.Settled, error) {
	select {
	case <-l.may:
		return l.Store.Settle(x, ss, finished)
	case <-x.Done():
		return nil, x.Err()
	}
}

func (l *lagging) TakeOver(x ctx, channels []string, owner string, lease time.Duration, n int) ([]intents.Claim, error) {
	l.lease.Store(int64(lease))
	l.calls.Add(1)
	return l.Store.TakeOver(x, channels, owner, lease, n)
}

// Settlements that lag do not make the patrol take the same claims over and over.
func TestPatrolHandsOnATakeoverOnce(t *testing.T) {
	r := newRig(t)
	const n = 600 // more than the patrol asks for at once
	var as []intents.Admission
	for i := range n {
		as = append(as, intenttest.Ask(fmt.Sprintf("over:%d", i), 0))
	}
	if _, err := r.store.Admit(bg, intenttest.Batch(as...)); err != nil {
		t.Fatal(err)
	}
	if claims, err := r.store.Claim(bg, intenttest.Wish("mail", "gone", n)); err != nil || len(claims) != n {
		t.Fatal(len(claims), err)
	}
	r.lapse()
	s := &lagging{Store: r.store, may: make(chan struct{})}
	d := r.start(r.config(s, on(visible).as("mail")))
	r.until("two rounds of the patrol", func() bool { return s.calls.Load() >= 4 })
	if got := d.metric(t, "takeovers_total"); got != n {
		t.Errorf("%v takeovers of %d", got, n)
	}
	close(s.may)
	r.until("all parked", func() bool { return r.count(`select count(*) from intents where state = 'unknown'`) == n })
}

// Who takes over and dies before it is settled holds an intent back no longer than any other crash.
func TestTakeoverIsHeldNoLongerThanTheShortestClaim(t *testing.T) {
	r := newRig(t)
	s := &lagging{Store: r.store, may: make(chan struct{})}
	r.start(r.config(s, on(visible).as("mail")))
	r.until("the patrol looks", func() bool { return s.calls.Load() > 0 })
	if got, shortest := time.Duration(s.lease.Load()), intents.LeaseFor(0); got > shortest {
		t.Errorf("a takeover is held for %v; the shortest claim is held for %v", got, shortest)
	}
}
