package pgtest

import (
	"context"
	"testing"

	"github.com/onebell/onebell/deploy/local"
)

// Fault is what happens to one statement on its way through a Wire; see package local.
type Fault = local.WireFault

// The faults.
const (
	LoseRequest = local.LoseStatement
	LoseReply   = local.LoseAnswer
	HoldRequest = local.HoldStatement
	HoldReply   = local.HoldAnswer
)

// Wire is a test's own TCP proxy in front of a PostgreSQL server that reads along.
type Wire struct{ *local.Wire }

// Proxy puts a Wire in front of the server that url names. Connect to Wire.URL. It ends with the test.
func Proxy(t testing.TB, serverURL string) *Wire {
	t.Helper()
	w, err := local.StartWire(serverURL)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(w.Close)
	return &Wire{w}
}

// Arm is local.Wire's.
func (w *Wire) Arm(fault Fault, marker string) *Hit { return w.ArmAfter(fault, marker, "") }

// ArmAfter is local.Wire's.
func (w *Wire) ArmAfter(fault Fault, marker, earlier string) *Hit {
	return &Hit{w.Wire.ArmAfter(fault, marker, earlier), marker}
}

// Hit is one armed fault.
type Hit struct {
	*local.WireHit
	marker string
}

// Wait waits for Done, and fails the test when that does not come, or when the server answered the statement with an
// error (so that it did not happen after all).
func (h *Hit) Wait(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-h.Done():
	case <-ctx.Done():
		t.Fatalf("pgtest: no statement with %q came by", h.marker)
	}
	if h.Failed() {
		t.Fatalf("pgtest: the server answered the statement with %q by an error", h.marker)
	}
}
