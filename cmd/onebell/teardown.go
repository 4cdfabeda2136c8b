package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// teardown is what must be taken down, in the order in which it was brought up. Safe for concurrent use.
type teardown struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	name  string
	limit time.Duration
	run   func(context.Context) error
}

// push adds a step; limit bounds it.
func (t *teardown) push(name string, limit time.Duration, run func(context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, step{name, limit, run})
}

// run takes everything down, last in first out, each step once and no longer than its limit and ctx; it goes on after a step
// that failed. Safe to call twice: what is down stays down.
func (t *teardown) run(ctx context.Context, log *slog.Logger) error {
	var failed []error
	for {
		s, ok := t.pop()
		if !ok {
			return errors.Join(failed...)
		}
		start := time.Now()
		if err := bounded(ctx, s); err != nil {
			failed = append(failed, fmt.Errorf("stopping %s: %w", s.name, err))
			log.WarnContext(ctx, "a part did not stop cleanly", "part", s.name, "error", err)
			continue
		}
		log.DebugContext(ctx, "stopped", "part", s.name, "took", time.Since(start))
	}
}

func (t *teardown) pop() (step, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == 0 {
		return step{}, false
	}
	last := t.steps[len(t.steps)-1]
	t.steps = t.steps[:len(t.steps)-1]
	return last, true
}

// bounded runs one step. A step that ignores its context is left behind when the time is over: the process is about to end.
func bounded(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		select {
		case err := <-done: // it heeded the context
			return err
		case <-time.After(100 * time.Millisecond):
			return errors.New("it took too long and was left behind")
		}
	}
}
