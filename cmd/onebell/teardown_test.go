package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTeardownIsLastInFirstOutBoundedAndIdempotent(t *testing.T) {
	synctest.Test(t, tearDown)
}

func tearDown(t *testing.T) {
	var down teardown
	var order []string
	note := func(name string, err error) func(context.Context) error {
		return func(context.Context) error { order = append(order, name); return err }
	}
	stuck := make(chan struct{})
	defer close(stuck)
	down.push("store", time.Second, note("store", nil))
	down.push("broker", time.Second, note("broker", errors.New("gone already")))
	down.push("stuck", 20*time.Millisecond, func(context.Context) error { <-stuck; return nil })
	down.push("admin", time.Second, note("admin", nil))

	start := time.Now()
	err := down.run(t.Context(), slog.New(slog.DiscardHandler))
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %s", took)
	}
	if !slices.Equal(order, []string{"admin", "broker", "store"}) {
		t.Errorf("order %v", order)
	}
	if err == nil || !strings.Contains(err.Error(), "stopping broker: gone already") || !strings.Contains(err.Error(), "stopping stuck: it took too long") {
		t.Errorf("error %v", err)
	}
	if err := down.run(t.Context(), slog.New(slog.DiscardHandler)); err != nil || len(order) != 3 {
		t.Errorf("a second time: %v %v", err, order)
	}
}
