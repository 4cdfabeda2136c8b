package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/onebell/onebell/channels"
)

// Pauses of a misconfigured channel grow from the base to the limit while nothing is accepted between them.
const (
	pauseBase  = 30 * time.Second
	pauseLimit = 10 * time.Minute

	breakerFailures = 5
	breakerTimeout  = 5 * time.Second
	breakerInterval = time.Minute
)

// gate decides how many sends of a channel may begin now: its rate limit, its circuit breaker and its pause. The number of senders
// bounds how many run at once; that is the lane's. It is safe for concurrent use.
type gate struct {
	limit   *rate.Limiter
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	turns    sync.Mutex
	promised int // sends that were promised a turn and have not had it

	mu          sync.Mutex
	untold      int       // changes found here that are not on record yet
	toldAt      time.Time // local; when the last one was
	pausedUntil time.Time // local; zero: not paused
	trial       bool      // a pause ran out and no answer has shown since that it was mended: one send at a time
	trying      bool      // that one is under way
}

// What the breaker is told: only errSick counts against the provider.
var (
	errSick    = errors.New("the provider did not answer as one that works")
	errAside   = errors.New("says nothing about the provider")
	errNoEntry = errors.New("the channel is held back")
)

func newGate(name string, s channels.Settings, log *slog.Logger, changed func(open bool)) *gate {
	g := &gate{limit: rate.NewLimiter(rate.Inf, 0)}
	if s.Rate > 0 {
		g.limit = rate.NewLimiter(rate.Limit(s.Rate), max(1, int(s.Rate/10)))
	}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Interval: breakerInterval, Timeout: breakerTimeout,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		IsExcluded:  func(err error) bool { return errors.Is(err, errAside) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			log.Warn("circuit breaker changed", "channel", name, "from", from.String(), "to", to.String())
			changed(to != gobreaker.StateClosed)
		},
	})
	return g
}

// promise keeps turns for up to n sends, as many as could begin now beside those promised before; when none could, it says when to
// ask again. Each ends with its turn, or is withdrawn, by withdraw. What is claimed on a promise need not wait for the rate limit,
// and whoever asks next sees what is left.
func (g *gate) promise(n int, now time.Time) (int, time.Duration) {
	g.turns.Lock()
	defer g.turns.Unlock()
	n, again := g.free(n, now)
	g.promised += n
	return n, again
}

// withdraw ends n promises.
func (g *gate) withdraw(n int) {
	g.turns.Lock()
	defer g.turns.Unlock()
	g.promised -= n
}

func (g *gate) free(n int, now time.Time) (int, time.Duration) {
	if n = min(n, g.passable(now)); n == 0 {
		return 0, g.reopens(now)
	}
	if g.limit.Limit() == rate.Inf {
		return n, 0
	}
	tokens := g.limit.TokensAt(now) - float64(g.promised)
	if tokens < 1 {
		return 0, time.Duration(math.Ceil((1 - tokens) / float64(g.limit.Limit()) * float64(time.Second)))
	}
	return min(n, int(tokens)), 0
}

// passable is how many sends pause and breaker would let begin.
func (g *gate) passable(now time.Time) int {
	g.mu.Lock()
	paused, trial, trying := now.Before(g.pausedUntil), g.trial, g.trying
	g.mu.Unlock()
	switch {
	case paused, trial && trying:
		return 0
	case trial:
		return 1
	}
	switch g.breaker.State() {
	case gobreaker.StateOpen:
		return 0
	case gobreaker.StateHalfOpen:
		c := g.breaker.Counts()
		return max(0, 1+int(c.TotalExclusions)-int(c.Requests))
	}
	return math.MaxInt
}

// reopens says when a closed gate is worth another look.
func (g *gate) reopens(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.pausedUntil) {
		return min(g.pausedUntil.Sub(now), pauseBase)
	}
	return breakerTimeout / 10
}

// turn waits for the rate limit; false if the turn would not come before the deadline, or ctx ended.
func (g *gate) turn(ctx context.Context, deadline time.Time) bool {
	if g.limit.Limit() == rate.Inf {
		return ctx.Err() == nil
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return g.limit.Wait(ctx) == nil
}

// pass is one send's way through the gate.
type pass struct {
	gate  *gate
	done  func(error)
	trial bool
}

// enter lets one send begin; its pass must be left once. It returns an error when the gate is closed.
func (g *gate) enter(now time.Time) (*pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.pausedUntil) || g.trial && g.trying {
		return nil, errNoEntry
	}
	done, err := g.breaker.Allow()
	if err != nil {
		return nil, err
	}
	g.trying = g.trial
	return &pass{gate: g, done: done, trial: g.trial}, nil
}

// leave reports the send's outcome. It returns true when this was the trial that shows that the channel was mended; the caller puts
// that on record and says told.
func (p *pass) leave(o channels.Outcome) (mended bool) {
	p.done(sickness(o))
	if !p.trial {
		return false
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
	switch o.Result() {
	case channels.Accepted, channels.Refused, channels.Throttled: // the provider knows who asks
	default:
		return false
	}
	g.trial, g.pausedUntil = false, time.Time{}
	g.untold++
	return true
}

// sickness is what an outcome says about the provider: a final refusal is the answer of a healthy one, and a panic is ours.
func sickness(o channels.Outcome) error {
	switch o.Result() {
	case channels.Unknown, channels.NotSent:
		if o.Code() == codePanic {
			return errAside
		}
		return errSick
	case channels.Misconfigured:
		return errAside // the pause takes care of it
	}
	return nil
}

// pause closes the gate for a while; false if it was closed already. The caller puts it on record and says told.
func (g *gate) pause(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.pausedUntil) {
		return false
	}
	g.pausedUntil, g.trial = now.Add(pauseBase), true
	g.untold++
	return true
}

// told says that a change found here is on record, or will never be.
func (g *gate) told(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.untold--
	g.toldAt = now
}

// heed takes over what all dispatchers know, as read at that instant: until is local, zero when no pause is on record. What was
// found here stands until it is on record and a later reading shows that. It returns true when a pause ended.
func (g *gate) heed(until, read time.Time) (reopened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.untold > 0 || !g.toldAt.Before(read) {
		return false
	}
	was := read.Before(g.pausedUntil)
	g.pausedUntil, g.trial = until, !until.IsZero()
	return was && !read.Before(until)
}

// paused reports whether the gate is closed until somebody mends the channel, or a while has passed.
func (g *gate) paused(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Before(g.pausedUntil)
}

// wide reports whether nothing but the rate holds sends back: no pause, no trial, a closed breaker.
func (g *gate) wide(now time.Time) bool { return g.passable(now) == math.MaxInt }
