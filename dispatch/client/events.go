package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

// EventConsumer returns the settings of the durable consumer that Events reads for a caller. One event at a time keeps those of an intent
// in order.
func EventConsumer(caller string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: "events-" + caller, FilterSubject: "onebell.event." + caller + ".>", DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: 1,
	}
}

// Events hands this caller's outcome events to handle, one after the other, until the context ends (it then returns nil). They are
// delivered at least once, those of one intent in order; a repeat has the same Event.ID. An event is done when handle returns
// nil; otherwise it comes again after a growing delay, before any other. handle has less than a minute.
// What happens while nobody reads is kept as long as the stream keeps it. Several processes may read at once; each event goes to one.
//
// Events creates its consumer (EventConsumer) where the server allows it. In production it does not, because a right to create consumers
// would let a producer read another's events: then whoever runs the broker creates it once, and until then the error says how.
func (c *Client) Events(ctx context.Context, handle func(context.Context, Event) error) error {
	name := EventConsumer(c.caller).Durable
	ctx, done := c.denials.watch(ctx, "$JS.", true)
	defer done()
	consumer, err := c.js.Consumer(ctx, wire.EventStream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
		if consumer, err = c.js.CreateConsumer(ctx, wire.EventStream, EventConsumer(c.caller)); err != nil {
			if err = ended(ctx, name, err); err == nil {
				return nil
			}
			return fmt.Errorf("there is no durable consumer %q on %s; whoever runs the broker must create it: "+
				"nats consumer add %s %s --filter 'onebell.event.%s.>' --pull --ack explicit --deliver all --max-pending 1 --wait 1m --defaults: %w",
				name, wire.EventStream, wire.EventStream, name, c.caller, err)
		}
	}
	if err != nil {
		return explain(ctx, "consumer "+name, err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return explain(ctx, "consumer "+name, err)
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return ended(ctx, name, err)
		}
		if err := c.deliver(ctx, msg, handle); err != nil {
			return ended(ctx, name, err)
		}
	}
}

// ended tells a context that its owner ended from one that the server's denial did.
func ended(ctx context.Context, name string, err error) error {
	var denied *PermissionError
	if ctx.Err() != nil && !errors.As(context.Cause(ctx), &denied) {
		return nil
	}
	return explain(ctx, "consumer "+name, err)
}

func (c *Client) deliver(ctx context.Context, msg jetstream.Msg, handle func(context.Context, Event) error) error {
	event, err := wire.DecodeEvent(msg.Data())
	if err != nil {
		return msg.TermWithReason("not an event of onebell")
	}
	if handle(ctx, event) == nil {
		return msg.Ack()
	}
	delay := time.Second
	if meta, err := msg.Metadata(); err == nil {
		delay = min(time.Second<<min(meta.NumDelivered-1, 6), time.Minute)
	}
	return msg.NakWithDelay(delay)
}

// Watch hands events to handle as they happen, one after the other, until the context ends (it then returns nil). Nothing is kept for it: what
// happens while the connection is down, or while handle is far behind, is missed. It needs no consumer. ready, if not
// nil, is called once the server is known to have the subscription.
func (c *Client) Watch(ctx context.Context, ready func(), handle func(context.Context, Event)) error {
	subject := "onebell.event." + c.caller + ".>"
	ctx, done := c.denials.watch(ctx, subject, false)
	defer done()
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		return explain(ctx, subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only where the connection is gone
	if err := c.flush(ctx); err != nil {
		return ended(ctx, subject, err)
	}
	if ready != nil && ctx.Err() == nil {
		ready()
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrSlowConsumer):
			continue // some were dropped; the next ones are there
		case err != nil:
			return ended(ctx, subject, err)
		}
		if event, err := wire.DecodeEvent(msg.Data); err == nil {
			handle(ctx, event)
		}
	}
}

func (c *Client) flush(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, Patience)
	defer stop()
	return c.nc.FlushWithContext(ctx)
}
