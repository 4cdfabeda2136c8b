package dispatch

import (
	"context"
	"math/rand/v2"
	"time"
)

// pace spaces out a poll: short while it bears fruit, doubling up to long while it does not, so that an idle dispatcher is
// nearly silent and a busy one is quick.
type pace struct {
	short, long time.Duration
	now         time.Duration
}

// next returns the pause before the next poll, with jitter so that dispatchers do not poll in step.
func (p *pace) next(fruitful bool) time.Duration {
	switch {
	case fruitful || p.now == 0:
		p.now = p.short
	default:
		p.now = min(2*p.now, p.long)
	}
	return jittered(p.now)
}

// jittered returns d give or take a fifth.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + time.Duration(rand.Float64()*float64(2*d/5))
}

// bell wakes one waiter; rings that nobody waited for are kept as one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// pause waits for d or, earlier, for the bell (which may be nil). It returns false once ctx is done.
func pause(ctx context.Context, d time.Duration, b bell) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-b:
	}
	return ctx.Err() == nil
}

// insist calls do until it succeeds or ctx is done, pausing longer and longer between. It returns the last error.
func insist(ctx context.Context, do func() error) error {
	p := pace{short: 50 * time.Millisecond, long: 2 * time.Second}
	for {
		err := do()
		if err == nil || !pause(ctx, p.next(false), nil) {
			return err
		}
	}
}
