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
	r.dispatcher(c.as("hooks", func(s *channels.Settings) { s.Rate = 10 }))
	const old = 8
	due := time.Now().Add(1500 * time.Millisecond)
	for n := range old {
		r.submit("shop", "hooks", ask(fmt.Sprintf("old:%d", n)).with("priority", "high").
			with("not_before", due.UTC().Format(time.RFC3339Nano)).with("content", map[string]any{"text": "OLD"}))
	}
	// Requests arrive at twice the rate until the old ones are sent. Counted is the order, so that a slow machine is no fault.
	sentOld, newAfterDue := 0, 0
	for n := 0; sentOld < old && time.Since(due) < patience; n++ {
		r.publish(wire.RequestSubject("shop", "hooks"), ask(fmt.Sprintf("new:%d", n)).with("priority", "low").bytes())
		time.Sleep(50 * time.Millisecond) // twice the rate
		sentOld, newAfterDue = 0, 0
		for _, s := range c.all() {
			switch {
			case strings.Contains(string(s.Rendered), "OLD"):
				sentOld++
			case s.at.After(due) && sentOld < old:
				newAfterDue++
			}
		}
	}
	if sentOld != old || newAfterDue > old/2 {
		t.Errorf("%d of the %d that are older and more urgent were sent, %d new ones before the last of them", sentOld, old, newAfterDue)
	}
	if n := r.count(`select count(*) from changes where cause = 'handed-back'`); n != 0 {
		t.Errorf("%d claims were handed back because their turns did not come", n)
	}
}
