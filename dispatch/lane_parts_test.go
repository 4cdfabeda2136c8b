package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

// testLane is a lane of a keyed channel whose findings nobody writes.
func testLane(t *testing.T, s channels.Settings) *lane {
	t.Helper()
	registry, err := channels.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	log, m := slog.New(slog.DiscardHandler), newMetrics(nil, registry, func() float64 { return 1 })
	return &lane{
		entry: channels.Entry{Name: "hooks", Settings: s}, policy: intents.Policy{Contract: channels.Contract{Guarantee: channels.Keyed}},
		gate: testGate(s), senders: semaphore.NewWeighted(int64(s.Concurrency)), direct: make(chan intents.Claim, maxRoom), wake: newBell(),
		metrics: m, log: log, sends: t.Context(), writes: t.Context(), report: func(string, error) {},
		settler: &settler{in: make(chan finding, maxRoom), ctx: t.Context(), log: log, metrics: m},
	}
}

func TestClaimWithoutASenderInTimeIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l := testLane(t, channels.Settings{Concurrency: 1, Rate: 100})
		if !l.senders.TryAcquire(1) { // a send that does not end
			t.Fatal("no sender")
		}
		const claims = 10
		for range claims {
			if !l.reserve(0) {
				break
			}
			l.push(intents.Claim{ID: uuid.New(), Trust: intents.NewTrust(time.Now(), 12*time.Second, 2*time.Second)}, 0)
		}
		pushed := len(l.direct)
		done := make(chan struct{})
		go func() { l.serveDirect(ctx); close(done) }()
		time.Sleep(6 * time.Second) // a second before the leases are over
		synctest.Wait()
		if pushed == 0 || len(l.settler.in) != pushed {
			t.Errorf("%d of %d claims were handed back before their leases are over", len(l.settler.in), pushed)
		}
		for range len(l.settler.in) {
			if f := <-l.settler.in; !f.settlement.NoAttempt || f.settlement.Transition.To() != intents.Pending {
				t.Errorf("settled as %+v", f.settlement)
			}
		}
		if n, _ := l.gate.promise(pushed, time.Now()); n != pushed || l.held.Load() != 0 {
			t.Errorf("%d turns of %d came back, %d claims are held", n, pushed, l.held.Load())
		}
		stop()
		<-done
	})
}

func TestRoomShrinksAtOnceWhenTheChannelGetsSlow(t *testing.T) {
	l := testLane(t, channels.Settings{Concurrency: 1})
	for range 100 {
		l.clock(time.Millisecond)
	}
	if got := l.room(); got != roomPerSlot {
		t.Fatalf("quick: room for %d", got)
	}
	if l.clock(2 * time.Second); l.room() != 1 {
		t.Errorf("after a slow send: room for %d, want 1", l.room())
	}
	for range 100 {
		l.clock(time.Millisecond)
	}
	if got := l.room(); got != roomPerSlot {
		t.Errorf("quick again: room for %d", got)
	}
}

// lossy is a store whose answers to claims get lost until it answers again.
type lossy struct {
	Store
	answers func(ctx context.Context, req intents.ClaimRequest) ([]intents.Claim, error)
	asked   []intents.ClaimRequest
}

func (s *lossy) Claim(ctx context.Context, req intents.ClaimRequest) ([]intents.Claim, error) {
	s.asked = append(s.asked, req)
	return s.answers(ctx, req)
}

func TestWishStaysOpenUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t, channels.Settings{Concurrency: 2})
		l.lease = 12 * time.Second
		began, answered := time.Now(), time.Time{}
		s := &lossy{}
		s.answers = func(context.Context, intents.ClaimRequest) ([]intents.Claim, error) {
			if time.Since(began) < l.lease-time.Second {
				return nil, errors.New("the reply was lost")
			}
			if !answered.IsZero() {
				return nil, nil
			}
			answered = time.Now()
			return []intents.Claim{{ID: uuid.New()}, {ID: uuid.New()}}, nil
		}
		l.store = s
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.serveAgenda(ctx); close(done) }()
		l.wake.ring()
		time.Sleep(time.Second)
		l.gate.pause(time.Now()) // nothing may be sent any more
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if answered.IsZero() || answered.Sub(began) > l.lease+time.Second {
			t.Fatalf("asked again after %v, the lease is %v", answered.Sub(began), l.lease)
		}
		for _, req := range s.asked {
			if req.Token != s.asked[0].Token {
				t.Fatal("asked under another token while a wish was open")
			}
		}
		if len(l.settler.in) != 2 {
			t.Fatalf("%d of 2 claims that nobody can use were handed back", len(l.settler.in))
		}
		if f := <-l.settler.in; !f.settlement.NoAttempt || f.settlement.Transition.To() != intents.Pending {
			t.Errorf("settled as %+v", f.settlement)
		}
		stop()
		<-done
	})
}

func TestHangingDatabaseDoesNotHoldUpTheLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLane(t, channels.Settings{Concurrency: 2})
		l.lease = 2 * time.Minute
		hangs := true
		s := &lossy{}
		s.answers = func(ctx context.Context, _ intents.ClaimRequest) ([]intents.Claim, error) {
			if hangs {
				hangs = false
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []intents.Claim{{ID: uuid.New()}}, nil
		}
		l.store = s
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.serveAgenda(ctx); close(done) }()
		l.wake.ring()
		synctest.Wait()
		stop()
		left := time.Now()
		<-done
		if took := time.Since(left); took > endClaims {
			t.Errorf("claiming ended %v after it was told to, want at most %v", took, endClaims)
		}
		if len(s.asked) != 2 || s.asked[0].Token != s.asked[1].Token || len(l.settler.in) != 1 {
			t.Errorf("asked %d times, %d handed back; want one more question with the same token, and what it got back", len(s.asked), len(l.settler.in))
		}
	})
}
