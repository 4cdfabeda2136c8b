package dispatch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onebell/onebell/channels"
)

func testGate(s channels.Settings) *gate {
	return newGate("mail", s, slog.New(slog.DiscardHandler), func(bool) {})
}

var (
	ok       = channels.OutcomeAccepted("", "", "")
	refused  = channels.OutcomeRefused("550", "")
	notSent  = channels.OutcomeNotSent(channels.PhaseConnect, "dial", "")
	unknown  = channels.OutcomeUnknown(channels.PhaseCommitted, "timeout", "")
	panicked = channels.OutcomeUnknown(channels.PhaseCommitted, codePanic, "")
	badKey   = channels.OutcomeMisconfigured(channels.PhaseReply, "401", "")
)

// look returns what a promise would be.
func look(g *gate, n int, now time.Time) (int, time.Duration) {
	n, again := g.promise(n, now)
	g.withdraw(n)
	return n, again
}

func through(t *testing.T, g *gate, o channels.Outcome) bool {
	t.Helper()
	p, err := g.enter(time.Now())
	if err != nil {
		t.Fatalf("the gate is closed: %v", err)
	}
	return p.leave(o)
}

func TestGateBreakerCountsOnlyASickProvider(t *testing.T) {
	for name, c := range map[string]struct {
		o    channels.Outcome
		sick bool
	}{
		"accepted": {ok, false}, "refused": {refused, false}, "not sent": {notSent, true}, "unknown": {unknown, true},
		"throttled": {channels.OutcomeThrottled(time.Second, "429", ""), false}, "misconfigured": {badKey, false}, "panic": {panicked, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := testGate(channels.Settings{})
			for range breakerFailures {
				through(t, g, c.o)
			}
			if n, _ := look(g, 10, time.Now()); (n == 0) != c.sick {
				t.Errorf("after %d times %s: %d may begin", breakerFailures, name, n)
			}
		})
	}
}

func TestGateHalfOpenLetsOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGate(channels.Settings{})
		for range breakerFailures {
			through(t, g, unknown)
		}
		if n, again := look(g, 10, time.Now()); n != 0 || again <= 0 {
			t.Fatalf("open: %d may begin, look again in %v", n, again)
		}
		time.Sleep(breakerTimeout + time.Millisecond)
		if n, _ := look(g, 10, time.Now()); n != 1 {
			t.Fatalf("half-open: %d may begin, want 1", n)
		}
		p, err := g.enter(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := look(g, 10, time.Now()); n != 0 {
			t.Fatalf("half-open with one under way: %d may begin, want 0", n)
		}
		p.leave(panicked) // says nothing about the provider
		if n, _ := look(g, 10, time.Now()); n != 1 {
			t.Fatalf("half-open after a panic: %d may begin, want 1", n)
		}
		through(t, g, ok)
		if n, _ := look(g, 10, time.Now()); n != 10 {
			t.Fatalf("closed: %d may begin, want 10", n)
		}
	})
}

func TestGatePauseTrialAndMending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGate(channels.Settings{})
		if !g.pause(time.Now()) || g.pause(time.Now()) {
			t.Fatal("the first finder pauses, the second adds nothing")
		}
		if _, err := g.enter(time.Now()); err == nil {
			t.Fatal("a paused gate let a send begin")
		}
		time.Sleep(pauseBase)
		if n, _ := look(g, 10, time.Now()); n != 1 {
			t.Fatalf("on trial: %d may begin, want 1", n)
		}
		p, err := g.enter(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.enter(time.Now()); err == nil {
			t.Fatal("two sends on trial at once")
		}
		p.leave(badKey)
		for _, o := range []channels.Outcome{unknown, notSent, panicked, badKey} {
			if through(t, g, o) {
				t.Fatalf("%s does not show that the channel was mended", o.Result())
			}
		}
		if n, _ := look(g, 10, time.Now()); n != 1 || !through(t, g, ok) {
			t.Fatal("an accepted send on trial ends the trial")
		}
		if n, _ := look(g, 10, time.Now()); n != 10 || through(t, g, ok) {
			t.Fatalf("mended: %d may begin, want 10, and nothing more to tell", n)
		}
	})
}

func TestGateHeedsWhatOthersFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGate(channels.Settings{})
		g.heed(time.Now().Add(time.Hour), time.Now())
		if n, _ := look(g, 10, time.Now()); n != 0 {
			t.Fatalf("paused by another: %d may begin", n)
		}
		if !g.heed(time.Time{}, time.Now()) {
			t.Fatal("resumed by another: it reopens")
		}
		read := time.Now()
		time.Sleep(time.Millisecond)
		g.pause(time.Now())
		g.heed(time.Time{}, read)
		if n, _ := look(g, 10, time.Now()); n != 0 {
			t.Fatal("a reading from before the own pause undid it")
		}
		time.Sleep(time.Millisecond)
		g.heed(time.Time{}, time.Now())
		if n, _ := look(g, 10, time.Now()); n != 0 {
			t.Fatal("a reading from before the own pause was on record undid it")
		}
		read = time.Now()
		time.Sleep(time.Millisecond)
		g.told(time.Now())
		g.heed(time.Time{}, read)
		if n, _ := look(g, 10, time.Now()); n != 0 {
			t.Fatal("a reading that was begun before the own pause was on record undid it")
		}
		time.Sleep(time.Millisecond)
		if !g.heed(time.Time{}, time.Now()) {
			t.Fatal("a later reading says that somebody ended it")
		}
	})
}

func TestGateKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGate(channels.Settings{Rate: 20})
		began, n := time.Now(), 0
		for time.Since(began) < 10*time.Second {
			if free, again := look(g, 50, time.Now()); free == 0 {
				time.Sleep(max(again, time.Millisecond))
				continue
			}
			if !g.turn(t.Context(), time.Now().Add(time.Minute)) {
				t.Fatal("no turn")
			}
			n++
		}
		if n < 190 || n > 203 {
			t.Errorf("%d sends in 10 s at 20 a second", n)
		}
		for free, _ := look(g, 50, time.Now()); free > 0; free, _ = look(g, 50, time.Now()) {
			g.turn(t.Context(), time.Now().Add(time.Minute))
		}
		if g.turn(t.Context(), time.Now().Add(time.Millisecond)) {
			t.Error("a turn that comes after the claim's time was waited for")
		}
	})
}

func TestGatePromisesNoTurnTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGate(channels.Settings{Rate: 30}) // three at once
		if n, _ := g.promise(2, time.Now()); n != 2 {
			t.Fatalf("%d of 2 promised", n)
		}
		if n, _ := g.promise(5, time.Now()); n != 1 {
			t.Fatalf("%d promised of the one that is left", n)
		}
		if n, again := g.promise(1, time.Now()); n != 0 || again <= 0 {
			t.Fatalf("%d promised of none, ask again in %v", n, again)
		}
		for range 3 {
			if !g.turn(t.Context(), time.Now().Add(time.Millisecond)) {
				t.Fatal("a promised turn had to be waited for")
			}
			g.withdraw(1)
		}
		time.Sleep(100 * time.Millisecond)
		if n, _ := g.promise(5, time.Now()); n != 3 {
			t.Fatalf("%d promised when all have had their turns, want 3", n)
		}
	})
}

func TestGateIsMendedByAnAnswerThatKnowsWhoAsks(t *testing.T) {
	for _, o := range []channels.Outcome{ok, refused, channels.OutcomeThrottled(time.Second, "429", "")} {
		synctest.Test(t, func(t *testing.T) {
			g := testGate(channels.Settings{})
			g.pause(time.Now())
			g.told(time.Now())
			time.Sleep(pauseBase)
			if !through(t, g, o) {
				t.Fatalf("%s on trial: the credentials work", o.Result())
			}
			g.heed(time.Now(), time.Now())
			if n, _ := look(g, 10, time.Now()); n != 10 {
				t.Fatalf("%s: %d may begin after a reading from before it was on record, want 10", o.Result(), n)
			}
		})
	}
}
