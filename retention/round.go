package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/fault"
)

// errInTheWay says that admissions held the watermark for the whole of a round's patience.
var errInTheWay = errors.New("admissions held the watermark for too long; some take seconds, or hang")

// errClock says that database and host disagree about the time by more than clockGap.
var errClock = errors.New("the clocks of the database and of this host are more than a day apart; nothing is forgotten by a clock that may be wrong. Set the clocks right")

// round moves the watermark and then deletes what may go, a bounded number of each kind. A step that fails keeps no other from being done,
// but by a clock that may be wrong nothing is. It returns whether there is more to delete.
func (p *Purger) round(ctx context.Context) (more bool) {
	if !p.step(ctx, clockStep, func() error { return p.checkClock(ctx) }) {
		return false
	}
	p.step(ctx, watermarkStep, func() error { return p.move(ctx) })
	for _, kind := range intents.PurgeKinds() {
		p.step(ctx, string(kind), func() error {
			left, err := p.purge(ctx, kind)
			more = more || left
			return err
		})
	}
	return more
}

// step does one step and takes note of how it went.
func (p *Purger) step(ctx context.Context, name string, do func() error) bool {
	if ctx.Err() != nil {
		return false
	}
	err := do()
	if err != nil && ctx.Err() == nil {
		p.metrics.failures.WithLabelValues(name).Inc()
	}
	p.note(ctx, name, err)
	return err == nil
}

func (p *Purger) checkClock(ctx context.Context) error {
	w, err := p.watermark(ctx)
	if err == nil && !plausible(w.Now, time.Now()) {
		return errClock
	}
	return err
}

// move moves the watermark: what it passes is refused from now on, whether its key is still there or not.
func (p *Purger) move(ctx context.Context) error {
	for try := 1; try <= moveTries; try++ {
		wait, peace := patience(try)
		call, cancel := context.WithTimeout(ctx, callTimeout)
		w, moved, err := p.cfg.Store.MoveWatermark(call, p.cfg.Windows.Keys, wait)
		cancel()
		if err != nil {
			return err
		}
		if moved {
			fault.At(fault.PurgeMoved)
			p.metrics.watermark.set("", w.Now.Sub(w.At))
			return nil
		}
		if !pause(ctx, peace) {
			return ctx.Err()
		}
	}
	return errInTheWay
}

// purge deletes what may go of one kind, step by step. It returns whether it ended before it came to the end.
func (p *Purger) purge(ctx context.Context, kind intents.PurgeKind) (left bool, err error) {
	w := p.walks[kind]
	for range roundSteps {
		begin := time.Now()
		page, gone, err := p.batch(ctx, kind, w.after)
		if err != nil {
			w.restart()
			return false, fmt.Errorf("purge %s: %w", kind, err)
		}
		p.metrics.deleted.WithLabelValues(string(kind)).Add(float64(gone))
		if !w.step(page, gone, stepRows) {
			return false, nil
		}
		if !pause(ctx, rest(time.Since(begin))) || !p.hold(ctx) {
			return false, ctx.Err()
		}
	}
	return true, nil
}

// batch reads a page and deletes what may go of it.
func (p *Purger) batch(ctx context.Context, kind intents.PurgeKind, after intents.PurgeMark) (page []intents.PurgeRow, gone int, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keep := p.cfg.Windows.of(kind)
	if page, err = p.cfg.Store.Purgeable(call, kind, keep, after, stepRows); err != nil {
		return nil, 0, err
	}
	marks := ripe(page)
	if len(marks) == 0 {
		return page, 0, nil
	}
	if gone, err = p.cfg.Store.Purge(call, kind, keep, marks); err != nil {
		return nil, 0, err
	}
	if kind == intents.PurgeKeys {
		fault.At(fault.PurgeKeys)
	} else {
		fault.At(fault.PurgeRows)
	}
	return page, gone, nil
}

// look reads how old the oldest row is that may go, of every kind, and where the watermark is. Every process does, so that a purge that
// nobody does is seen, too.
func (p *Purger) look(ctx context.Context) {
	_, err := p.watermark(ctx)
	for _, kind := range intents.PurgeKinds() {
		err = errors.Join(err, p.lookFor(ctx, kind))
	}
	p.note(ctx, "look", err)
}

func (p *Purger) watermark(ctx context.Context) (intents.Watermark, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w, err := p.cfg.Store.Watermark(call)
	if err == nil && !w.At.IsZero() {
		p.metrics.watermark.set("", w.Now.Sub(w.At))
	}
	return w, err
}

// lookFor walks until it meets a row that may go. Where it meets only rows that may not, it goes on there the next time.
func (p *Purger) lookFor(ctx context.Context, kind intents.PurgeKind) error {
	w := p.looks[kind]
	for range lookPages {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		page, err := p.cfg.Store.Purgeable(call, kind, p.cfg.Windows.of(kind), w.after, lookRows)
		cancel()
		if err != nil {
			return err
		}
		age := oldest(page)
		if more := w.step(page, 0, lookRows); age > 0 || !more {
			w.restart()
			p.metrics.oldest.set(string(kind), age)
			return nil
		}
	}
	return nil
}
