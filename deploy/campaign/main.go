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
	var short bool
	root := &cobra.Command{
		Use:           "campaign",
		Short:         "Kill, pause and cut a running onebell, and check its promises from outside",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case one != 0:
				o.first, o.seeds = one, 1
			case short:
				o.first, o.seeds, o.parallel, o.reach = 1, shortSeeds, 3, reachAll
			case o.seeds >= longSeeds:
				o.reach = killAll
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
	flags.BoolVar(&short, "short", false, "run a few fixed seeds, in about three minutes")
	flags.StringVar(&o.json, "json", "", "file that gets the table as JSON")
	root.AddCommand(newBrokerChild(), newCompare(), newHosts())
	return root
}
