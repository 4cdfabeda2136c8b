package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/client"
	"github.com/onebell/onebell/dispatch/wire"
)

func newCancel() *cobra.Command {
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel",
		Short: "Keep a request from being sent, if it is not on its way",
		Long: "Acts as the producer. The answer is cancelled, or too late with the state that the intent has: never a promise. Exit status 0 only if it\n" +
			"is cancelled, by this run or before.",
		Example: "  onebell cancel --caller shop --channel mail --key receipt-mail:8841",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return asProducer(cmd.Context(), t.caller, func(ctx context.Context, c *client.Client) error {
				answer, err := c.Cancel(ctx, t.channel, dedup.Key(t.key), t.revision)
				if err != nil {
					return err
				}
				if asJSON {
					if err := printJSON(cmd.OutOrStdout(), answer); err != nil {
						return err
					}
				}
				if answer.Result != wire.CancelDone {
					return fmt.Errorf("not cancelled (%s, state %q): %s", answer.Result, answer.State, answer.Message)
				}
				if !asJSON {
					fmt.Fprintf(cmd.OutOrStdout(), "cancelled %s\n", answer.Intent)
				}
				return nil
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
