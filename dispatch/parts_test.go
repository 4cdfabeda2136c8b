package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/intents"
)

func TestPaceIsQuickWithWorkAndSlowWithout(t *testing.T) {
	p := pace{short: 100 * time.Millisecond, long: time.Second}
	near := func(got, want time.Duration) bool { return got >= want*8/10 && got <= want*12/10 }
	for i, step := range []struct {
		fruitful bool
		want     time.Duration
	}{
		{false, 100 * time.Millisecond},
		{false, 200 * time.Millisecond},
		{false, 400 * time.Millisecond},
		{false, 800 * time.Millisecond},
		{false, time.Second},
		{false, time.Second},
		{true, 100 * time.Millisecond},
		{false, 200 * time.Millisecond},
	} {
		if got := p.next(step.fruitful); !near(got, step.want) {
			t.Errorf("step %d: %v, want about %v", i, got, step.want)
		}
	}
}

func TestInsistUntilDoneOrOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, sick := 0, errors.New("sick")
		err := insist(t.Context(), func() error {
			if tries++; tries < 4 {
				return sick
			}
			return nil
		})
		if err != nil || tries != 4 {
			t.Errorf("%d tries, %v", tries, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := insist(ctx, func() error { return sick }); !errors.Is(err, sick) {
			t.Errorf("the last error is lost: %v", err)
		}
	})
}

func TestClockRunsOnTheMonotonicClockBetweenReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC) // another century than this host's
		c := &databaseClock{read: func(context.Context) (time.Time, error) {
			time.Sleep(40 * time.Millisecond) // there
			now := database
			time.Sleep(40 * time.Millisecond) // and back
			return now, nil
		}}
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := c.now().Sub(database); got != 40*time.Millisecond {
			t.Errorf("right after the reading: %v off, want half the round trip", got)
		}
		time.Sleep(time.Minute)
		if got := c.now().Sub(database); got != time.Minute+40*time.Millisecond {
			t.Errorf("a minute later: %v", got)
		}
		if got := time.Until(c.localTime(database.Add(2 * time.Minute))); got != time.Minute-40*time.Millisecond {
			t.Errorf("an instant of the database is %v away", got)
		}
		c.read = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("away") }
		if c.refresh(t.Context()) == nil || c.now().Before(database) {
			t.Error("a failed reading must be told, and change nothing")
		}
	})
}

func TestAlarmRingsForEveryInstantAndNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm
		var mu sync.Mutex
		var rings []time.Duration
		began := time.Now()
		for _, d := range []time.Duration{2 * time.Second, 700 * time.Millisecond, 701 * time.Millisecond, 5 * time.Second} {
			a.set(began.Add(d), func() {
				mu.Lock()
				defer mu.Unlock()
				rings = append(rings, time.Since(began))
			})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(rings) != 3 || rings[0] < 701*time.Millisecond || rings[1] < 2*time.Second || rings[2] < 5*time.Second ||
			rings[2] > 5*time.Second+2*alarmGrain || len(a.slots) != 0 {
			t.Errorf("rings %v", rings)
		}
	})
}

func TestBatchIsFinishedOnlyWithItsLastClaim(t *testing.T) {
	s := &settler{open: map[uuid.UUID]int{}}
	a, b := uuid.New(), uuid.New()
	of := func(batch uuid.UUID) finding { return finding{claim: intents.Claim{Batch: batch}} }
	s.expect(a, 3)
	s.expect(b, 1)
	first := []finding{of(a), of(b), of(uuid.Nil)}
	second := []finding{of(a), of(a)}
	earlier, here := s.finishedWith(first)
	if len(earlier) != 0 || fmt.Sprint(here) != fmt.Sprint([]uuid.UUID{b}) {
		t.Fatalf("with the first: %v %v, want b alone", earlier, here)
	}
	// The second runs at the same time, while the first is not written yet: a must not be forgotten.
	if _, here := s.finishedWith(second); len(here) != 0 {
		t.Fatalf("with the second: %v, want none: one of a's claims may still be lost", here)
	}
	s.close(second, nil)
	s.close(first, here)
	if earlier, _ := s.finishedWith(nil); fmt.Sprint(earlier) != fmt.Sprint([]uuid.UUID{a}) || len(s.open) != 0 {
		t.Errorf("afterwards: %v, open %v; want a", earlier, s.open)
	}
}

func TestNakDelayGrowsAndIsBounded(t *testing.T) {
	last := time.Duration(0)
	for _, tries := range []uint64{0, 1, 2, 3, 4, 5, 6, 1 << 40} {
		d := nakDelay(tries)
		if d < 800*time.Millisecond || d > 30*time.Second || d < last/2 {
			t.Errorf("delivery %d: %v after %v", tries, d, last)
		}
		last = d
	}
	if last < 20*time.Second {
		t.Errorf("after many deliveries the delay is %v", last)
	}
}

func TestDeliveryIDNamesOnePlaceInOneStream(t *testing.T) {
	created := time.Unix(1, 0)
	id := deliveryID("S", created, 7)
	if id != deliveryID("S", created, 7) {
		t.Error("a redelivery has another id")
	}
	for _, other := range []uuid.UUID{deliveryID("S", created, 8), deliveryID("S", created.Add(1), 7), deliveryID("T", created, 7)} {
		if other == id {
			t.Error("another message has the same id")
		}
	}
}

func TestEventTokens(t *testing.T) {
	for in, want := range map[string]string{"shop": "shop", "": "unknown", "a.b": "unknown", "*": "unknown", ">": "unknown", "a b": "unknown", "ä": "unknown"} {
		if got := token(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestRoomFollowsTheLengthOfSends(t *testing.T) {
	l := &lane{entry: channels.Entry{Settings: channels.Settings{Concurrency: 10}}}
	for took, want := range map[time.Duration]int64{0: 40, 10 * time.Second: 10, 100 * time.Millisecond: 100, time.Microsecond: 1280} {
		l.pace.Store(int64(took))
		if got := l.room(); got != want {
			t.Errorf("sends of %v: room for %d, want %d", took, got, want)
		}
	}
	l.entry.Settings.Rate = 5
	if got := l.room(); got != 5 {
		t.Errorf("at 5 a second: room for %d, want a second's worth", got)
	}
}

func TestDatabaseIsWellOnlyWhenNothingFailsForAWhile(t *testing.T) {
	var a answers
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	if !a.ready(at(0)) {
		t.Error("not ready before the first call")
	}
	if a.note(false, at(1)) || !a.note(true, at(2)) || a.note(true, at(2.1)) {
		t.Error("the first failure is told, once")
	}
	if a.note(false, at(2.2)); a.ready(at(2.3)) {
		t.Error("ready although another kind of call has just failed")
	}
	if a.ready(at(60)) != true || !a.note(false, at(61)) || a.note(false, at(62)) {
		t.Error("recovered: ready, and told once")
	}
	if a.note(true, at(70)); a.ready(at(170)) {
		t.Error("ready although nothing has gone well since the failure")
	}
}
