package retention

import (
	"errors"
	"math"
	"time"

	"github.com/onebell/onebell/intents"
)

// Windows say how long things are kept. Each is more than 0.
type Windows struct {
	Keys     time.Duration // since the fact's own time
	Contents time.Duration // since the intent came to its end
	Intents  time.Duration // since the intent came to its end; refusals since they were made
}

// KeysAtLeast is how long keys must be kept so that none is forgotten while a request or an attempt under it can still be under way: the
// horizon, and after it the longest time of retrying, the longest lease and the longest time that a provider knows a key.
func KeysAtLeast(horizon, retry, lease, keyWindow time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range []time.Duration{horizon, retry, lease, keyWindow} {
		if d = max(0, d); sum > math.MaxInt64-d {
			return math.MaxInt64
		}
		sum += d
	}
	return sum
}

func (w Windows) check() error {
	switch {
	case w.Keys <= 0 || w.Contents <= 0 || w.Intents <= 0:
		return errors.New("retention: every window must be more than 0")
	case w.Intents < w.Keys || w.Contents > w.Intents:
		return errors.New("retention: intents must be kept as long as their keys and contents")
	}
	return nil
}

// of returns the window of a kind.
func (w Windows) of(kind intents.PurgeKind) time.Duration {
	switch kind {
	case intents.PurgeKeys:
		return w.Keys
	case intents.PurgeContents:
		return w.Contents
	}
	return w.Intents
}
