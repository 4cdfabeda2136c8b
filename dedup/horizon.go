package dedup

import "time"

// Horizon is how old a fact may be, and how far ahead of the clock, to be admitted. Both are durations, so that no change of
// a local clock moves it.
type Horizon struct {
	Age    time.Duration
	Future time.Duration
}

// Timeliness is what a Horizon says of a fact. The zero value is no answer.
type Timeliness uint8

// Answers of Horizon.Admits.
const (
	InTime    Timeliness = iota + 1 // neither of the other two
	TooOld                          // its key may have been forgotten
	TooFuture                       // the producer's clock is wrong, or this is not the fact's time
)

func (t Timeliness) String() string {
	return [...]string{"undecided", "in time", "too old", "too far in the future"}[min(t, TooFuture)]
}

// Admits judges the time of a fact against now, the database's clock. Both ends belong to the horizon: exactly now − Age and
// exactly now + Future are in time.
func (h Horizon) Admits(occurredAt, now time.Time) Timeliness {
	switch {
	case occurredAt.Before(now.Add(-h.Age)):
		return TooOld
	case occurredAt.After(now.Add(h.Future)):
		return TooFuture
	}
	return InTime
}
