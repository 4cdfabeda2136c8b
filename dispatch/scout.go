package dispatch

import (
	"context"
	"time"
)

// Scouting finds what became due without a local sign: intents of other dispatchers, of a time before this one, of operators.
const (
	scoutShort = 500 * time.Millisecond
	scoutLong  = 2 * time.Second
)

// scout tells the lanes which channels have something due, quickly while there is work and seldom while there is none.
func (d *Dispatcher) scout(ctx context.Context) {
	p := pace{short: scoutShort, long: scoutLong}
	for found := true; pause(ctx, p.next(found), nil); {
		call, cancel := context.WithTimeout(ctx, storeTimeout)
		due, err := d.store.DueChannels(call)
		cancel()
		d.report("due", err)
		found = false
		for _, name := range due {
			if l, ok := d.lanes[name]; ok { // an unknown channel is left alone
				l.wake.ring()
				found = true
			}
		}
	}
}

// keepTime refreshes the estimate of the database's clock.
func (d *Dispatcher) keepTime(ctx context.Context) {
	for pause(ctx, jittered(clockEvery), nil) {
		call, cancel := context.WithTimeout(ctx, storeTimeout)
		d.report("clock", d.clock.refresh(call))
		cancel()
	}
}

const clockEvery = 15 * time.Second
