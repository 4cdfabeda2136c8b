package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/dispatch/wire"
)

// brokerFaults disturbs the broker, one thing after the other, until ctx ends. Each is mended by itself before the next.
type brokerFaults struct {
	broker *broker
	rnd    *rand.Rand
	record *record
}

func (f *brokerFaults) run(ctx context.Context) error {
	for pause(ctx, between(f.rnd, time.Second, 4*time.Second)) {
		do, how := pick(f.rnd, []func(context.Context, *rand.Rand) error{f.kill, f.restart, f.freeze, f.freeze, f.consumer, f.acks}),
			rand.New(rand.NewPCG(f.rnd.Uint64(), 0))
		if err := do(context.WithoutCancel(ctx), how); err != nil {
			return err
		}
	}
	return nil
}

func (f *brokerFaults) kill(ctx context.Context, rnd *rand.Rand) error {
	f.broker.kill()
	f.record.add("F8 broker killed (SIGKILL)")
	pause(ctx, between(rnd, 0, 1500*time.Millisecond))
	return f.broker.start()
}

func (f *brokerFaults) restart(context.Context, *rand.Rand) error {
	f.record.add("F8 broker restarted")
	return f.broker.restart()
}

func (f *brokerFaults) freeze(ctx context.Context, rnd *rand.Rand) error {
	if err := f.broker.freeze(); err != nil {
		return err
	}
	pause(ctx, between(rnd, 500*time.Millisecond, 4*time.Second))
	f.record.add("F8 broker frozen")
	return f.broker.thaw()
}

// consumer deletes the dispatchers' consumer; they have to make another.
func (f *brokerFaults) consumer(ctx context.Context, _ *rand.Rand) error {
	nc, err := nats.Connect(f.broker.url())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	switch err := js.DeleteConsumer(ctx, wire.RequestStream, consumerName); {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return nil // nobody was there to make one
	case err != nil:
		return err
	}
	f.record.add("F8 consumer deleted")
	return nil
}

// consumerName is the dispatchers' durable consumer.
const consumerName = "onebell"

// acks takes the dispatchers' right to acknowledge away for a while.
func (f *brokerFaults) acks(ctx context.Context, rnd *rand.Rand) error {
	config, err := withoutAcks(f.broker.config)
	if err != nil {
		return err
	}
	if err := f.broker.reload(config); err != nil {
		return err
	}
	f.record.add("F22 right to acknowledge revoked")
	pause(ctx, between(rnd, 500*time.Millisecond, 3*time.Second))
	return f.broker.reload(f.broker.config)
}
