package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/client"
)

// The commands that act as a producer: publish, status, cancel.

// target names an intent, by flags.
type target struct {
	caller, channel, key string
	revision             int32
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.caller, "caller", "", "producer; over NATS the broker's permissions bind it to the user")
	cmd.Flags().StringVar(&t.channel, "channel", "", "channel instance, as in mail")
	cmd.Flags().StringVar(&t.key, "key", "", "the fact, as in receipt-mail:8841")
	cmd.Flags().Int32Var(&t.revision, "revision", 0, "revision of the fact")
}

// check refuses what cannot name an intent, before anything is connected to.
func (t *target) check() error {
	if _, err := dedup.ParseCaller(t.caller); err != nil {
		return flagError("caller", t.caller, err)
	}
	if _, err := dedup.ParseChannel(t.channel); err != nil {
		return flagError("channel", t.channel, err)
	}
	if _, err := dedup.ParseKey(t.key); err != nil {
		return flagError("key", t.key, err)
	}
	if t.revision < 0 {
		return usagef("--revision must be 0 or more")
	}
	return nil
}

func flagError(name, value string, err error) error {
	if value == "" {
		return usagef("--%s is required", name)
	}
	var input *dedup.InputError
	if errors.As(err, &input) {
		return usagef("--%s: %s", name, input.Message)
	}
	return usagef("--%s: %w", name, err)
}

// callLimit bounds one command over the network.
const callLimit = 15 * time.Second

// asProducer connects to the broker as a caller, does one thing, and closes.
func asProducer(ctx context.Context, caller string, do func(context.Context, *client.Client) error) error {
	cfg, err := loadConfig(0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{
		URL: cfg.NatsURL.value, Caller: caller, CredentialsFile: string(cfg.NatsCredsFile), CAFile: string(cfg.NatsCAFile),
		// Errors come back from the calls; the library's default would print them to standard error, too.
		NATS: []nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})},
	})
	if err != nil {
		return errors.New("the broker at " + hosts(cfg.NatsURL.value) + ": " + brokerReason(err))
	}
	defer c.Close()
	return do(ctx, c)
}
