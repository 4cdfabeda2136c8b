package retention

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	moveTries    = 6
	firstMove    = 50 * time.Millisecond
	shortestRest = 10 * time.Millisecond
	longestRest  = 5 * time.Second
	restShare    = 4 // rests are that many times as long as the work before them

	// clockGap is how far database and host may disagree about the time. Beyond it one of them is broken, and a watermark that was moved
	// by a broken clock never comes back.
	clockGap = 24 * time.Hour
)

// patience is how long the try waits for admissions under way to end, while new ones stand behind it, and how long they are
// left in peace before the next. All tries of a round together hold admissions up for no more than three seconds or so, and that only where one of
// them takes that long itself.
func patience(try int) (wait, peace time.Duration) {
	wait = firstMove << (try - 1)
	return wait, 4 * wait
}

// rest is the pause after a step that took so long: a database that is busy with other things is left to them.
func rest(took time.Duration) time.Duration {
	return min(max(restShare*took, shortestRest), longestRest)
}

// plausible says that the database's clock may be believed.
func plausible(database, host time.Time) bool {
	return database.Sub(host).Abs() <= clockGap
}

// pause waits; false once ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// jittered returns d give or take a fifth, so that processes do not do things in step.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + time.Duration(rand.Float64()*float64(2*d/5))
}
