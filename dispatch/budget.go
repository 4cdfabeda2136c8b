package dispatch

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/onebell/onebell/dispatch/wire"
)

// Bounds of what requests may occupy, from their arrival to their answer, in bytes as they arrived. What is made of them on their
// way (parsed, canonical, rendered) is a small multiple of a batch, of which each clerk has one. Requests of the stream and those that
// wait for a reply have a budget each, so that neither keeps the other out.
const (
	streamBytes = 48 << 20
	submitBytes = 16 << 20
	batchBytes  = 8 << 20
	letterBytes = 1 << 10 // what a letter costs beside its payload
)

// budget bounds the bytes of the letters in hand. A letter that is larger than all of it goes alone.
type budget struct {
	size  int64
	left  *semaphore.Weighted
	gauge prometheus.Gauge
}

func newBudget(size int64, gauge prometheus.Gauge) *budget {
	return &budget{size: size, left: semaphore.NewWeighted(size), gauge: gauge}
}

// enter waits until there is room for the letter, which leaves when it is answered; false when ctx ended.
func (b *budget) enter(ctx context.Context, l *letter) bool {
	return b.left.Acquire(ctx, b.share(l)) == nil && b.note(l)
}

// tryEnter does not wait; false when there is no room now.
func (b *budget) tryEnter(l *letter) bool { return b.left.TryAcquire(b.share(l)) && b.note(l) }

func (b *budget) share(l *letter) int64 { return min(l.weight(), b.size) }

func (b *budget) note(l *letter) bool {
	share := b.share(l)
	b.gauge.Add(float64(share))
	l.back = carried{answerer: l.back, leave: func() {
		b.gauge.Sub(float64(share))
		b.left.Release(share)
	}}
	return true
}

// carried is the way back of a letter that counts against a budget.
type carried struct {
	answerer
	leave func()
}

func (c carried) answer(r wire.Reply) {
	defer c.leave()
	c.answerer.answer(r)
}

func (c carried) postpone() {
	defer c.leave()
	c.answerer.postpone()
}

// gather returns first and what else is there, up to admitBatch letters and about batchBytes.
func gather(first letter, in <-chan letter) []letter {
	batch, bytes := []letter{first}, first.weight()
	for len(batch) < admitBatch && bytes < batchBytes {
		select {
		case next := <-in:
			batch, bytes = append(batch, next), bytes+next.weight()
		default:
			return batch
		}
	}
	return batch
}
