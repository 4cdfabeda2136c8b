package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newDev(stderr *os.File) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine and stay",
		Long: "Starts a broker, a database, a mail inbox, a webhook receiver and a dispatcher on 127.0.0.1 and prints their addresses: the usual\n" +
			"ports where they are free. It needs PostgreSQL's programs, or ONEBELL_DATABASE_URL, and nothing else. Stop it with Ctrl-C.",
		Example: "  onebell dev\n  onebell dev --data ./onebell-data",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dev(cmd.Context(), data, cmd.OutOrStdout(), stderr)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "folder that keeps database, streams and secret; temporary when empty")
	return cmd
}

func dev(ctx context.Context, data string, out io.Writer, stderr *os.File) error {
	cfg, err := loadEarly()
	if err != nil {
		return err
	}
	log := newLogger(cfg, stderr)
	h, err := startOneHost(ctx, oneHostOptions{stackOptions: stackOptions{databaseURL: cfg.DatabaseURL.value, data: data, usual: true}}, log)
	if err != nil {
		return err
	}
	printAddresses(out, h, time.Now())
	select {
	case <-ctx.Done():
	case err = <-h.app.Failed():
	}
	return errors.Join(err, h.stop(context.WithoutCancel(ctx), log))
}

// printAddresses says where everything is, and how to publish the first request.
func printAddresses(out io.Writer, h *oneHost, now time.Time) {
	broker, at, command := h.stack.broker.URL(), now.UTC().Format(time.RFC3339), calledAs(os.Args[0])
	if broker != "nats://127.0.0.1:4222" {
		command = "ONEBELL_NATS_URL=" + broker + " " + command
	}
	fmt.Fprintf(out, `broker            %s
admin API         http://%s  (no token needed on this machine)
mail inbox        %s  (channel "%s")
webhook receiver  %s  (channel "%s")
database          %s

A first request, and what became of it:

  %s publish --caller shop --channel mail --key receipt-mail:8841 --to ada@example.org \
    --occurred-at %s --content '{"subject":"Your receipt","text":"Thank you."}'
  %s status --caller shop --channel mail --key receipt-mail:8841
  curl -s 'http://%s/v1/intents?caller=shop&key=receipt-mail:8841'

Stop with Ctrl-C.
`, broker, h.app.Addr(), h.inbox.URL(), mailChannel, h.receiver.URL(), hookChannel, hosts(h.stack.databaseURL), command, at, command, h.app.Addr())
}

// calledAs is how a reader can run this program again: `go run` builds it into a folder that is gone afterwards.
func calledAs(program string) string {
	if strings.Contains(filepath.ToSlash(program), "/go-build") {
		return "go run ./cmd/onebell"
	}
	return program
}
