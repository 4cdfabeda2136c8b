package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// lane is one channel's way out: its senders, its gate, and the claims that wait for a sender. Lanes share nothing but the
// store, so a slow or dead channel does not slow another.
//
// Claims come two ways. Where a repeat would be seen they are claimed just in time, when a sender is free. Where the effect is
// keyed they may be claimed at admission, as far as room has been reserved, and wait in direct.
type lane struct {
	entry   channels.Entry
	policy  intents.Policy
	lease   time.Duration
	store   Store
	gate    *gate
	settler *settler
	metrics *metrics
	log     *slog.Logger
	owner   string
	report  func(call string, err error)

	senders *semaphore.Weighted
	direct  chan intents.Claim
	held    atomic.Int64 // claims reserved or waiting in direct
	bytes   atomic.Int64 // of what they send
	behind  atomic.Bool  // something on the agenda may be due and not claimed
	pace    atomic.Int64 // length of a send, nanoseconds; see clock
	wake    bell
	wish    uuid.UUID // token of the last claim call while it is unanswered; serveAgenda's alone
	alarm   alarm
	running sync.WaitGroup // attempts

	sends    context.Context // ends sends: the grace period is over
	writes   context.Context // ends writes, last of all
	stopping atomic.Bool     // nothing new begins
}

// Bounds of the room for claims at admission.
const (
	maxRoom      = 4096
	roomBytes    = 16 << 20 // of what is to be sent
	roomPerSlot  = 128
	claimsAtOnce = 100
)

// room is how many claims may wait for a sender: about a second's worth of sends, so that a lease is never spent on waiting.
func (l *lane) room() int64 {
	c := int64(l.entry.Settings.Concurrency)
	perSlot := int64(4)
	if took := l.pace.Load(); took > 0 {
		perSlot = min(max(int64(time.Second)/took, 1), roomPerSlot)
	}
	room := min(c*perSlot, maxRoom)
	if r := l.entry.Settings.Rate; r > 0 {
		room = min(room, max(1, int64(r)))
	}
	return room
}

// clock notes the length of a send: a long one counts at once, short ones count for little each, so that room shrinks as soon as
// the channel is slow.
func (l *lane) clock(took time.Duration) {
	l.pace.Store(max(int64(took), (l.pace.Load()*7+int64(took))/8))
}

// reserve asks for room for one claim of so many bytes at admission, and for its turn. A reservation ends with push or release. Where turns are
// scarce, what is due comes first: it may be older, or more urgent.
func (l *lane) reserve(bytes int64) bool {
	now := time.Now()
	if l.policy.Contract.Guarantee != channels.Keyed || l.stopping.Load() || !l.gate.wide(now) {
		return false
	}
	if l.entry.Settings.Rate > 0 && l.behind.Load() {
		return false
	}
	if held, occupied := l.held.Add(1), l.bytes.Add(bytes); held > l.room() || occupied > roomBytes {
		l.vacate(bytes)
		return false
	}
	if n, _ := l.gate.promise(1, now); n == 0 {
		l.vacate(bytes)
		return false
	}
	return true
}

func (l *lane) vacate(bytes int64) {
	l.held.Add(-1)
	l.bytes.Add(-bytes)
}

func (l *lane) release(bytes int64) {
	l.vacate(bytes)
	l.gate.withdraw(1)
}

// push hands over a claim made at admission, for which room for so many bytes was reserved.
func (l *lane) push(c intents.Claim, bytes int64) {
	l.bytes.Add(int64(len(c.Rendered)) - bytes)
	l.direct <- c
}

// due tells the lane that an intent of its channel is, or will be, due. What is farther away is the scout's.
func (l *lane) due(at time.Time) {
	switch wait := time.Until(at); {
	case wait <= 0:
		l.wake.ring()
	case wait < alarmReach:
		l.alarm.set(at, l.wake.ring)
	}
}

// serveDirect begins the sends of claims made at admission. A claim whose time is over before a sender is free goes back to the
// agenda: left to its lease it would count as one that may have been used.
func (l *lane) serveDirect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-l.direct:
			l.vacate(int64(len(c.Rendered)))
			waiting, stop := context.WithDeadline(ctx, c.Trust.StartBy)
			err := l.senders.Acquire(waiting, 1)
			stop()
			if err != nil {
				l.gate.withdraw(1)
				l.handBack(c, "no sender was free in time")
				continue
			}
			l.begin(ctx, c)
		}
	}
}

// emptyDirect hands back what waits for a sender.
func (l *lane) emptyDirect() {
	for {
		select {
		case c := <-l.direct:
			l.release(int64(len(c.Rendered)))
			l.handBack(c, "the dispatcher is leaving")
		default:
			return
		}
	}
}

// serveAgenda claims what is due whenever it is told that something may be. A wish that is still open when ctx ends is asked about
// once more, so that what it got can be handed back.
func (l *lane) serveAgenda(ctx context.Context) {
	sick := pace{short: 50 * time.Millisecond, long: 2 * time.Second}
	for wait := time.Hour; pause(ctx, wait, l.wake); {
		l.behind.Store(true)
		for more := true; more; {
			more, wait = l.claimDue(ctx, &sick)
		}
	}
	if l.wish != uuid.Nil {
		_, _ = l.claim(ctx, 0) // without an answer the leases end it
	}
}

// claimDue claims for the senders that are free, waiting for the first. It returns true if there may be more now, else when to
// look again.
func (l *lane) claimDue(ctx context.Context, sick *pace) (more bool, wait time.Duration) {
	if l.senders.Acquire(ctx, 1) != nil {
		return false, 0
	}
	n := 1
	for n < claimsAtOnce && l.senders.TryAcquire(1) {
		n++
	}
	want, again := l.gate.promise(n, time.Now())
	if want == 0 && l.wish == uuid.Nil {
		l.senders.Release(int64(n))
		return false, again
	}
	claims, err := l.claim(ctx, want)
	l.gate.withdraw(want - len(claims))
	l.senders.Release(int64(n - len(claims)))
	for _, c := range claims {
		l.begin(ctx, c)
	}
	if err != nil {
		return false, sick.next(false)
	}
	sick.now = 0
	if len(claims) == want {
		return want > 0, again
	}
	l.behind.Store(false)
	return false, time.Hour
}

// claim asks for n claims. A wish stays open until it is answered, however long that takes: its token recognises a claim whose COMMIT
// was lost, which nobody else knows to be unused. What an earlier call got is held from the last call on, for which the trust
// counts; what it got beyond n is handed back.
//
// A call that was begun is finished also when ctx ends, for a short while: what nobody hears of stands until its lease is over.
func (l *lane) claim(ctx context.Context, n int) ([]intents.Claim, error) {
	if l.wish == uuid.Nil {
		l.wish = uuid.New()
	}
	before := time.Now()
	call, cancel := context.WithTimeout(l.writes, min(l.lease/2, storeTimeout))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastClaim, cancel) })()
	fault.At(fault.ClaimBefore)
	claims, err := l.store.Claim(call, intents.ClaimRequest{
		Channel: l.entry.Name, KeyScope: l.policy.Contract.KeyScope, KeyWindow: l.policy.Contract.KeyWindow,
		Owner: l.owner, Lease: l.lease, N: max(n, 1), Token: l.wish,
	})
	l.report("claim", err)
	if err != nil {
		return nil, err
	}
	l.wish = uuid.Nil
	if len(claims) > 0 {
		fault.At(fault.ClaimDone)
	}
	for i := range claims {
		claims[i].Trust = intents.NewTrust(before, l.lease, l.policy.Contract.AttemptTimeout)
	}
	for _, c := range claims[min(n, len(claims)):] {
		l.handBack(c, "it was claimed unheard, and there is no sender for it now")
	}
	return claims[:min(n, len(claims))], nil
}

// begin runs an attempt on a sender that the caller acquired, and a turn that it was promised.
func (l *lane) begin(ctx context.Context, c intents.Claim) {
	l.running.Add(1)
	l.metrics.inFlight.WithLabelValues(l.entry.Name).Inc()
	go func() {
		defer l.running.Done()
		defer l.metrics.inFlight.WithLabelValues(l.entry.Name).Dec()
		defer l.senders.Release(1)
		l.attempt(ctx, c)
	}()
}
