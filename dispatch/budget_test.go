package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// large is a message of the stream as the client library hands it over.
type large struct {
	jetstream.Msg
	data     []byte
	answered *atomic.Int64
}

func (m large) Subject() string                  { return wire.RequestSubject("shop", "hooks") }
func (m large) Data() []byte                     { return m.data }
func (m large) Headers() nats.Header             { return nil }
func (m large) NakWithDelay(time.Duration) error { m.answered.Add(1); return nil }
func (m large) Ack() error                       { m.answered.Add(1); return nil }
func (m large) Nak() error                       { return nil }
func (m large) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Stream: "S", NumDelivered: 1}, nil
}

func TestBytesInHandStayWithinTheBudget(t *testing.T) {
	const budget, size, messages = 1 << 20, 100 << 10, 60
	l := testLane(t, channels.Settings{Concurrency: 1})
	in := &intake{
		metrics: l.metrics, log: l.log, stream: make(chan letter, admitBatch), submits: make(chan letter, admitBatch),
		streamRoom: newBudget(budget, l.metrics.inHand.WithLabelValues("stream")),
		submitRoom: newBudget(budget, l.metrics.inHand.WithLabelValues("submit")), stage: &stage{ctx: t.Context()},
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var answered atomic.Int64
	go func() {
		for n := range messages {
			data := make([]byte, size)
			if n == messages/2 {
				data = make([]byte, 3*budget) // more than the whole budget
			}
			in.take(ctx, large{data: data, answered: &answered}, time.Time{})
		}
	}()
	for answered.Load() < messages {
		select {
		case first := <-in.stream:
			time.Sleep(2 * time.Millisecond) // more arrive, as many as may
			batch := gather(first, in.stream)
			if bytes := len(batch) * size; len(batch) > 1 && bytes > budget {
				t.Fatalf("%d bytes are in hand, want at most %d", bytes, budget)
			}
			for n, l := range batch {
				if n%2 == 0 {
					l.back.postpone()
				} else {
					l.back.answer(wire.Reply{Verdict: wire.Accepted})
				}
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d were taken in and answered", answered.Load(), messages)
		}
	}
	if !in.streamRoom.left.TryAcquire(budget) {
		t.Error("answered letters still count")
	}
}

func TestSubmitsBeyondTheBudgetAreAnsweredAtOnce(t *testing.T) {
	const budget = 1 << 20
	l := testLane(t, channels.Settings{Concurrency: 1})
	in := &intake{
		metrics: l.metrics, log: l.log, submits: make(chan letter, admitBatch), stage: &stage{ctx: t.Context()},
		submitRoom: newBudget(budget, l.metrics.inHand.WithLabelValues("submit")),
	}
	for range 20 {
		in.submit(&nats.Msg{Subject: wire.SubmitSubject("shop", "hooks"), Data: make([]byte, 100<<10)})
	}
	if n := len(in.submits); n != 10 {
		t.Errorf("%d are in hand, want the 10 that fit", n)
	}
	(<-in.submits).back.postpone()
	in.submit(&nats.Msg{Subject: wire.SubmitSubject("shop", "hooks"), Data: make([]byte, 100<<10)})
	if n := len(in.submits); n != 10 {
		t.Errorf("%d are in hand, want one more after one was answered", n)
	}
}

func TestBatchAndRoomAreBoundedInBytes(t *testing.T) {
	in := make(chan letter, admitBatch)
	for range 50 {
		in <- letter{data: make([]byte, 1<<20)}
	}
	if n := len(gather(<-in, in)); n != 8 {
		t.Errorf("a batch of %d letters of a MiB, want 8", n)
	}
	l := testLane(t, channels.Settings{Concurrency: 100})
	const size = 1 << 20
	n := 0
	for l.reserve(size) {
		n++
	}
	if n != roomBytes/size {
		t.Errorf("room for %d claims of a MiB, want %d", n, roomBytes/size)
	}
	l.push(intents.Claim{Rendered: make([]byte, size/2)}, size)
	if !l.reserve(size/2) || l.reserve(1) {
		t.Error("what was pushed counts for more or less than it holds")
	}
}
