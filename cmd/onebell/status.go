package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

// statusFlags says what is asked and where.
type statusFlags struct {
	target
	intent           string
	adminURL         string
	token, tokenFile string
	asJSON           bool
}

func newStatus() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say what became of a request, by its key",
		Long: "Over NATS it asks as the producer (--caller) about one revision. With --admin it asks the admin API, for operators: all revisions of\n" +
			"the key, or one with --revision, with attempts and explanation; or one intent by --intent.",
		Example: "  onebell status --caller shop --channel mail --key receipt-mail:8841\n" +
			"  onebell status --admin http://127.0.0.1:8080 --token-file token --key receipt-mail:8841 --json",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.adminURL != "" {
				return f.overHTTP(cmd, cmd.OutOrStdout())
			}
			if f.intent != "" || f.token != "" || f.tokenFile != "" {
				return usagef("--intent, --token and --token-file go with --admin")
			}
			if err := f.check(); err != nil {
				return err
			}
			return asProducer(cmd.Context(), f.caller, func(ctx context.Context, c *client.Client) error {
				return f.overNATS(ctx, c, cmd.OutOrStdout())
			})
		},
	}
	f.target.flags(cmd)
	cmd.Flags().StringVar(&f.adminURL, "admin", "", "ask the admin API at this address, as in http://127.0.0.1:8080")
	cmd.Flags().StringVar(&f.token, "token", "", "token for --admin; other users of this host can see it, so prefer --token-file")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "file that holds the token")
	cmd.Flags().StringVar(&f.intent, "intent", "", "ask by the intent's id, with --admin")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

func (f *statusFlags) overNATS(ctx context.Context, c *client.Client, out io.Writer) error {
	st, err := c.Status(ctx, f.channel, dedup.Key(f.key), f.revision)
	if errors.Is(err, client.ErrNotFound) {
		return errors.New("there is no such intent of this caller; check channel, key and revision (a refused request never becomes an intent)")
	}
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(out, st)
	}
	printStatus(out, st)
	return nil
}

func printStatus(out io.Writer, st wire.Status) {
	fmt.Fprintf(out, "%s  %s rev %d  %s\n", st.Intent, st.Key, st.Revision, st.State)
	fmt.Fprintf(out, "  channel %s (%s), %d attempt(s), updated %s\n", st.Channel, st.Guarantee, st.Attempts, st.UpdatedAt.Format(time.RFC3339))
	if st.Code != "" || st.Message != "" {
		fmt.Fprintf(out, "  %s\n", oneLine(st.Code+" "+st.Message))
	}
	if st.ProviderID != "" {
		fmt.Fprintf(out, "  provider id %s\n", st.ProviderID)
	}
}

// overHTTP asks the admin API.
func (f *statusFlags) overHTTP(cmd *cobra.Command, out io.Writer) error {
	if f.intent == "" && f.key == "" {
		return usagef("--key or --intent is required")
	}
	token, err := f.bearer()
	if err != nil {
		return err
	}
	api, err := admin.NewClient(f.adminURL, token, nil)
	if err != nil {
		return usagef("--admin: %w", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), callLimit)
	defer cancel()
	found, err := f.ask(ctx, api, cmd.Flags().Changed("revision"))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("there is no such intent; check caller, channel, key and revision, or look into /v1/refusals")
	}
	if f.asJSON {
		return printJSON(out, found)
	}
	for _, d := range found {
		printDetail(out, d)
	}
	return nil
}

func (f *statusFlags) ask(ctx context.Context, api *admin.Client, oneRevision bool) ([]admin.IntentDetail, error) {
	if f.intent != "" {
		d, err := api.Intent(ctx, f.intent)
		return []admin.IntentDetail{d}, err
	}
	var revision *int32
	if oneRevision {
		revision = &f.revision
	}
	return api.StatusByKey(ctx, f.caller, f.channel, f.key, revision)
}

func (f *statusFlags) bearer() (string, error) {
	if f.tokenFile == "" {
		return f.token, nil
	}
	if f.token != "" {
		return "", usagef("--token and --token-file exclude each other")
	}
	raw, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", usagef("--token-file %s", fileReason(err))
	}
	return strings.TrimSpace(string(raw)), nil
}

func printDetail(out io.Writer, d admin.IntentDetail) {
	fmt.Fprintf(out, "%s  %s rev %d  %s\n", d.ID, d.Key, d.Revision, d.State)
	fmt.Fprintf(out, "  %s/%s (%s), to %s, generation %d, updated %s\n", d.Caller, d.Channel, d.Guarantee, d.Recipient, d.Generation, d.UpdatedAt.Format(time.RFC3339))
	for _, a := range d.Attempts {
		fmt.Fprintf(out, "  attempt %d: %s\n", a.Generation, oneLine(strings.Join([]string{a.Result, a.Phase, a.Code, a.Message}, " ")))
	}
	for _, sentence := range []string{d.Explain.Happened, d.Explain.Next} {
		if sentence != "" {
			fmt.Fprintf(out, "  %s\n", oneLine(sentence))
		}
	}
}
