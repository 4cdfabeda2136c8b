// Command campaign kills, pauses and cuts a running onebell, and checks from outside that nothing is lost, nothing comes twice and
// nothing is overwritten.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	var o options
	var one uint64
	root := &cobra.Command{
		Use:           "campaign",
		Short:         "Kill, pause and cut a running onebell, and check its promises from outside",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if one != 0 {
				o.first, o.seeds = one, 1
			}
			return run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := root.Flags()
	flags.Uint64Var(&o.seeds, "seeds", 100, "how many rounds to run, each with a seed of its own")
	flags.Uint64Var(&o.first, "first", 1, "first seed")
	flags.Uint64Var(&one, "seed", 0, "run this seed alone")
	flags.IntVar(&o.parallel, "parallel", 2, "rounds at the same time")
	flags.StringVar(&o.logs, "logs", filepath.Join(os.TempDir(), "onebell-campaign"), "folder for the logs of rounds that found something")
	flags.BoolVar(&o.keep, "keep", false, "keep the logs of every round")
	root.AddCommand(newBrokerChild())
	return root
}
