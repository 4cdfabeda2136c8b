package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/client"
)

func newDemo(stderr *os.File) *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play a story with real sends on this machine, and check every promise",
		Long: "Starts a broker, a database, a mail inbox, a webhook receiver and a dispatcher on 127.0.0.1 and plays: a receipt published three times,\n" +
			"the same key with another meaning, a revision that overtakes an older one, a mail whose final reply is lost, and a keyed hook whose\n" +
			"reply is lost. Exit status 0 only if every promise held. It needs PostgreSQL's programs, or ONEBELL_DATABASE_URL, and nothing else.",
		Example: "  onebell demo\n  onebell demo --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), data, asJSON, cmd.OutOrStdout(), stderr)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "folder that keeps database, streams and secret; temporary when empty")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// demoLimit bounds the story; it takes seconds.
const demoLimit = 3 * time.Minute

func demo(ctx context.Context, data string, asJSON bool, out io.Writer, stderr *os.File) (err error) {
	cfg, err := loadEarly()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	// The story provokes faults; what the service says of them is its own business here.
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	story := newStory(uuid.NewString()[:8], out, asJSON)
	story.say("Starting a broker, a database, an inbox, a receiver and a dispatcher on this machine …")
	h, err := startOneHost(ctx, oneHostOptions{
		stackOptions: stackOptions{databaseURL: cfg.DatabaseURL.value, data: data, usual: true}, mails: story.mailFate, calls: story.callFate,
	}, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop(context.WithoutCancel(ctx), log)) }()
	shop, err := client.Connect(ctx, client.Options{
		URL: h.stack.broker.URL(), Caller: demoCaller,
		NATS: []nats.Option{nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})},
	})
	if err != nil {
		return err
	}
	defer shop.Close()
	if err := story.play(ctx, shop, h); err != nil {
		return err
	}
	return story.end(out)
}

// end prints the promises and says how the story ended.
func (s *story) end(out io.Writer) error {
	broken := 0
	for _, p := range s.result.Promises {
		if !p.Held {
			broken++
		}
	}
	if s.asJSON {
		if err := printJSON(out, s.result); err != nil {
			return err
		}
	} else {
		s.print()
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d promises were broken; they are marked BROKEN above", broken, len(s.result.Promises))
	}
	s.say("\nAll %d promises held.", len(s.result.Promises))
	return nil
}

// mailFate loses the reply to one recipient's mail, each time: whoever sends it again has sent it twice.
func (s *story) mailFate(a local.Arrival) local.Fate {
	if a.To == lostRecipient {
		return local.LoseReply()
	}
	return local.Take()
}

// callFate loses the reply to the first call.
func (s *story) callFate(a local.Arrival) local.Fate {
	if a.N == 1 {
		return local.LoseReply()
	}
	return local.Take()
}
