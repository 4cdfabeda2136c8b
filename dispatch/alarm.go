package dispatch

import (
	"sync"
	"time"
)

const (
	alarmReach = 10 * time.Second
	alarmGrain = 50 * time.Millisecond
)

// alarm rings at the instants it was set to, none of them early. Instants close together ring once, so that any number of
// settings costs at most alarmReach/alarmGrain timers.
type alarm struct {
	mu    sync.Mutex
	slots map[int64]bool
}

func (a *alarm) set(at time.Time, ring func()) {
	slot := at.UnixNano()/int64(alarmGrain) + 1
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slots[slot] {
		return
	}
	if a.slots == nil {
		a.slots = map[int64]bool{}
	}
	a.slots[slot] = true
	time.AfterFunc(time.Until(time.Unix(0, slot*int64(alarmGrain))), func() {
		a.mu.Lock()
		delete(a.slots, slot)
		a.mu.Unlock()
		ring()
	})
}
