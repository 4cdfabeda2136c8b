package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onebell/onebell/channels"
)

// What the rate limit says to wait is enough: a lane that asks again then gets its turn, and does not spin on the rest of a nanosecond.
func TestWaitForATurnIsLongEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGate(channels.Settings{Concurrency: 1, Rate: 3})
		for i := range 1000 {
			time.Sleep(time.Duration(i) * 7919 * time.Microsecond / 10)
			for n, again := g.promise(1, time.Now()); n == 0; n, again = g.promise(1, time.Now()) {
				if again <= 0 {
					t.Fatalf("turn %d: none now, and to be asked for again in %v", i, again)
				}
				time.Sleep(again)
			}
			if !g.turn(t.Context(), time.Now().Add(time.Second)) {
				t.Fatalf("turn %d did not come", i)
			}
			g.withdraw(1)
		}
	})
}
