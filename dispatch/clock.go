package dispatch

import (
	"context"
	"sync"
	"time"
)

// databaseClock estimates the database's clock between readings of it, on the local monotonic clock: a host whose wall clock
// is wrong, or jumps, judges no horizon by it.
type databaseClock struct {
	read func(context.Context) (time.Time, error)

	mu    sync.Mutex
	base  time.Time // the database's clock at local
	local time.Time // with its monotonic reading
}

// refresh takes a new reading. Its error is half the round trip.
func (c *databaseClock) refresh(ctx context.Context) error {
	before := time.Now()
	t, err := c.read(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.local = t, before.Add(time.Since(before)/2)
	return nil
}

// at returns the database's clock at the local instant.
func (c *databaseClock) at(local time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.Add(local.Sub(c.local))
}

func (c *databaseClock) now() time.Time { return c.at(time.Now()) }

// localTime returns the local instant of a database instant.
func (c *databaseClock) localTime(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local.Add(t.Sub(c.base))
}
