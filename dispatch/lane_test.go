package dispatch_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
)

func TestWhatIsDueComesBeforeNewRequestsWhereTurnsAreScarce(t *testing.T) {
	r := newRig(t)
	c := on(keyed)
	c.draw = func(m channels.Message) ([]byte, error) { return json.Marshal(string(m.Content)) }
	c.send = func(ctx, channels.Attempt) channels.Outcome {
		time.Sleep(150 * time.Millisecond) // a provider's time: a turn comes before a sender is free
		return accepted()
	}
	scarce := c.as("hooks", func(s *channels.Settings) { s.Rate, s.Concurrency = 10, 1 })
	cfg := r.config(r.store, scarce)
	cfg.Dispatch = false
	intake := r.start(cfg) // admits, and sends nothing
	const old = 12
	for n := range old {
		r.submit("shop", "hooks", ask(fmt.Sprintf("old:%d", n)).with("priority", "high").with("content", map[string]any{"text": "OLD"}))
	}
	r.drain(intake)
	r.dispatcher(scarce)
	r.until("the first of the old ones sent", func() bool { return c.count() > 0 })
	// Requests arrive at twice the rate and more until the old ones are sent. Counted is the order, so that a slow machine is no fault.
	sentOld, newBefore := 0, 0
	for n, deadline := 0, time.Now().Add(patience); sentOld < old && time.Now().Before(deadline); n++ {
		r.publish(wire.RequestSubject("shop", "hooks"), ask(fmt.Sprintf("new:%d", n)).with("priority", "low").bytes())
		time.Sleep(50 * time.Millisecond) // between two of them
		sentOld, newBefore = 0, 0
		for _, s := range c.all() {
			switch {
			case strings.Contains(string(s.Rendered), "OLD"):
				sentOld++
			case sentOld < old:
				newBefore++
			}
		}
	}
	if sentOld != old || newBefore > old/4 {
		t.Errorf("%d of the %d that are older and more urgent were sent, %d new ones before the last of them", sentOld, old, newBefore)
	}
	if n := r.count(`select count(*) from changes where cause = 'handed-back'`); n != 0 {
		t.Errorf("%d claims were handed back because their turns did not come", n)
	}
}
