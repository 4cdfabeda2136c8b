package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

// publishFlags is a request as flags give it.
type publishFlags struct {
	target
	to, occurredAt, content, collapseID string
	notBefore, expiresAt, priority      string
	labels                              map[string]string
	payload                             string
	async, asJSON                       bool
}

func newPublish() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish one request and print the verdict",
		Long: "Acts as a producer. By default it waits for the verdict (accepted, duplicate, conflict, stale, superseded, refused); with --async it\n" +
			"only hands the request to the broker. Running it again with the same flags is safe: it is answered as a duplicate. --occurred-at is\n" +
			"the fact's own time and has no default, because a time stamped anew on each try would make a retry look like something else.",
		Example: "  onebell publish --caller shop --channel mail --key receipt-mail:8841 --to ada@example.org \\\n" +
			"    --occurred-at 2026-11-30T10:00:00Z --content '{\"subject\":\"Your receipt\",\"text\":\"Thank you.\"}'\n" +
			"  onebell publish --caller shop --channel mail --payload request.json",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return asProducer(cmd.Context(), f.caller, func(ctx context.Context, c *client.Client) error {
				if f.async {
					return publishAsync(ctx, c, f, r, cmd.OutOrStdout())
				}
				return submit(ctx, c, f, r, cmd.OutOrStdout())
			})
		},
	}
	f.target.flags(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "recipient: mail address, https URL …, as the channel wants it")
	cmd.Flags().StringVar(&f.occurredAt, "occurred-at", "", "when the fact happened, RFC 3339 with offset; the same on every try")
	cmd.Flags().StringVar(&f.content, "content", "", "content as JSON, as the channel type wants it; @FILE reads a file, - standard input")
	cmd.Flags().StringVar(&f.collapseID, "collapse-id", "", "what newer notifications replace; the fact's revisions when empty")
	cmd.Flags().StringVar(&f.notBefore, "not-before", "", "not sent earlier, RFC 3339")
	cmd.Flags().StringVar(&f.expiresAt, "expires-at", "", "not sent from then on, RFC 3339")
	cmd.Flags().StringVar(&f.priority, "priority", "", "high, normal or low")
	cmd.Flags().StringToStringVar(&f.labels, "label", nil, "label, as in team=billing; may be repeated")
	cmd.Flags().StringVar(&f.payload, "payload", "", "the whole request as JSON from a FILE, or - for standard input; in place of the flags about it")
	cmd.Flags().BoolVar(&f.async, "async", false, "only hand it to the broker; no verdict")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// request puts the flags together; what is wrong with them is a usage error.
func (f *publishFlags) request(stdin io.Reader) (wire.Request, error) {
	if f.payload != "" {
		return f.fromPayload(stdin)
	}
	if err := f.check(); err != nil {
		return wire.Request{}, err
	}
	for _, required := range []struct{ flag, value string }{{"to", f.to}, {"occurred-at", f.occurredAt}, {"content", f.content}} {
		if required.value == "" {
			return wire.Request{}, usagef("--%s is required", required.flag)
		}
	}
	content, err := readContent(f.content, stdin)
	if err != nil {
		return wire.Request{}, err
	}
	r := wire.Request{
		Key: dedup.Key(f.key), Revision: f.revision, Recipient: f.to, Content: content, CollapseID: f.collapseID, Priority: wire.Priority(f.priority), Labels: f.labels,
	}
	for _, moment := range []struct {
		flag, value string
		into        *time.Time
	}{{"occurred-at", f.occurredAt, &r.OccurredAt}, {"not-before", f.notBefore, &r.NotBefore}, {"expires-at", f.expiresAt, &r.ExpiresAt}} {
		if moment.value == "" {
			continue
		}
		if *moment.into, err = time.Parse(time.RFC3339Nano, moment.value); err != nil {
			return wire.Request{}, usagef("--%s is not a time; write it as in 2026-11-30T10:00:00Z, with an offset", moment.flag)
		}
	}
	return r, checked(r)
}

func (f *publishFlags) fromPayload(stdin io.Reader) (wire.Request, error) {
	if f.key == "" {
		f.key = "payload:decides" // the flags about the request are not read; caller and channel are
	}
	if err := f.check(); err != nil {
		return wire.Request{}, err
	}
	name := "@" + f.payload
	if f.payload == "-" {
		name = "-"
	}
	raw, err := readContent(name, stdin)
	if err != nil {
		return wire.Request{}, err
	}
	r, err := wire.Decode(raw)
	if err != nil {
		return wire.Request{}, malformed(err)
	}
	f.key, f.revision = string(r.Key), r.Revision
	return r, nil
}

// checked makes a malformed request a usage error: it would be refused without having been sent.
func checked(r wire.Request) error {
	if _, err := r.Encode(); err != nil {
		return malformed(err)
	}
	return nil
}

func malformed(err error) error {
	var refusal *wire.Refusal
	if errors.As(err, &refusal) {
		return usagef("the request is malformed: %s", refusal.Error())
	}
	return usagef("the request is malformed: %w", err)
}

// readContent reads JSON from the flag itself, from @FILE or from standard input.
func readContent(value string, stdin io.Reader) (json.RawMessage, error) {
	var raw []byte
	var err error
	switch {
	case value == "-":
		raw, err = io.ReadAll(io.LimitReader(stdin, wire.MaxPayload+1))
	case value[0] == '@':
		raw, err = os.ReadFile(value[1:])
	default:
		return json.RawMessage(value), nil
	}
	if err != nil {
		return nil, usagef("the content cannot be read: %w", err)
	}
	return raw, nil
}

func submit(ctx context.Context, c *client.Client, f publishFlags, r wire.Request, out io.Writer) error {
	reply, err := c.Submit(ctx, f.channel, r)
	if err != nil {
		return err
	}
	if f.asJSON {
		if err := printJSON(out, reply); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(out, oneLine(fmt.Sprintf("%s %s %s", reply.Verdict, reply.Intent, reply.State)))
	}
	if reply.Verdict == wire.Accepted || reply.Verdict == wire.Duplicate {
		return nil
	}
	return fmt.Errorf("not admitted (%s, %s): %s", reply.Verdict, reply.Code, reply.Message)
}

func publishAsync(ctx context.Context, c *client.Client, f publishFlags, r wire.Request, out io.Writer) error {
	stored, err := c.Publish(ctx, f.channel, r)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(out, map[string]uint64{"sequence": stored.Sequence})
	}
	fmt.Fprintf(out, "stored %d; ask `onebell status --caller %s --channel %s --key %s` what became of it\n", stored.Sequence, f.caller, f.channel, r.Key)
	return nil
}
