package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents/fault"
)

const (
	pullMessages  = 1000
	pullBytes     = 16 << 20
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second
	lookEvery     = 10 * time.Second // at the consumer, from outside
)

// consume keeps the consumer flowing: whenever it falls silent or disappears it says so, looks at streams and consumer again,
// creates what is missing (where allowed), and goes on.
func (in *intake) consume(ctx context.Context) {
	p := pace{short: 100 * time.Millisecond, long: 5 * time.Second}
	for first := true; ctx.Err() == nil; first = false {
		if !first {
			in.metrics.restarts.Inc()
		}
		began := time.Now()
		err := in.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if in.health.set("intake", "the consumer does not deliver; requests wait on the broker") {
			in.log.Warn("the consumer was lost; looking for it again", "error", err)
		}
		if !pause(ctx, p.next(time.Since(began) > pullExpiry), nil) {
			return
		}
	}
}

// session consumes until the consumer is lost or ctx is done.
func (in *intake) session(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := EnsureStreams(call, in.js, in.create); err != nil {
		return err
	}
	stream, err := in.js.Stream(call, wire.RequestStream)
	if err != nil {
		return err
	}
	created := stream.CachedInfo().Created
	consumer, err := stream.Consumer(call, RequestConsumerName)
	if err != nil {
		return err
	}
	lost := make(chan error, 1)
	flow, err := consumer.Consume(func(msg jetstream.Msg) { in.take(ctx, msg, created) },
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, pullBytes), jetstream.PullExpiry(pullExpiry),
		jetstream.PullHeartbeat(pullHeartbeat), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if !passing(err) {
				select {
				case lost <- err:
				default:
				}
			}
		}))
	if err != nil {
		return err
	}
	defer finish(flow)
	if in.health.clear("intake") {
		in.log.Info("the consumer delivers")
	}
	return in.watch(ctx, consumer, flow, lost)
}

// passing reports errors that a running consumer mends by itself. Silence is not among them: a client that only misses
// heartbeats may miss them for ever (nats-io/nats.go#1729).
func passing(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerLeadershipChanged) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, jetstream.ErrBatchCompleted) || errors.Is(err, jetstream.ErrMaxBytesExceeded)
}

// watch returns when the consumer is lost; it looks at it from outside, too.
func (in *intake) watch(ctx context.Context, consumer jetstream.Consumer, flow jetstream.ConsumeContext, lost <-chan error) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-lost:
			return err
		case <-flow.Closed():
			return errors.New("the subscription was closed")
		case <-look.C:
			if err := in.look(ctx, consumer); err != nil {
				return err
			}
		}
	}
}

func (in *intake) look(ctx context.Context, consumer jetstream.Consumer) error {
	call, cancel := context.WithTimeout(ctx, lookEvery/2)
	defer cancel()
	info, err := consumer.Info(call)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if err == nil {
		in.metrics.pending.Set(float64(info.NumPending) + float64(info.NumAckPending))
	}
	return nil
}

// finish ends a consumption; what it has in hand is still handled, as far as that goes quickly.
func finish(flow jetstream.ConsumeContext) {
	flow.Drain()
	select {
	case <-flow.Closed():
	case <-time.After(2 * time.Second):
		flow.Stop()
	}
}

// take turns a message into a letter for the clerks. While they are busy it waits, and the broker keeps the rest.
func (in *intake) take(ctx context.Context, msg jetstream.Msg, created time.Time) {
	meta, err := msg.Metadata()
	if err != nil {
		in.log.Error("a message without a place in the stream", "error", err)
		return
	}
	l := letter{
		subject: msg.Subject(), data: msg.Data(), header: msg.Headers(), published: meta.Timestamp,
		seq: meta.Sequence.Stream, tries: meta.NumDelivered, refusal: deliveryID(meta.Stream, created, meta.Sequence.Stream),
		back: delivery{msg: msg, tries: meta.NumDelivered, in: in},
	}
	fault.At(fault.IntakeFetched)
	if ctx.Err() == nil && in.streamRoom.enter(ctx, &l) {
		select {
		case in.stream <- l:
			return
		case <-ctx.Done():
		}
	}
	if err := msg.Nak(); err != nil { // another dispatcher gets it at once
		in.log.Debug("a request was not given back; it will come again", "error", err)
	}
}
