package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// comparison says what to compare.
type comparison struct {
	first, seeds uint64
	mails, kills int
	logs         string
}

func newCompare() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use: "compare", Args: cobra.NoArgs,
		Short: "Count what is lost, what comes twice and what is UNKNOWN while dispatchers are killed, next to the usual ways",
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.Uint64Var(&c.seeds, "seeds", 3, "how many times to run it; the medians are printed")
	flags.Uint64Var(&c.first, "first", 1, "first seed")
	flags.IntVar(&c.mails, "mails", 2000, "distinct facts")
	flags.IntVar(&c.kills, "kills", 50, "kills, at least")
	flags.StringVar(&c.logs, "logs", filepath.Join(os.TempDir(), "onebell-campaign"), "folder for the logs of a run that found something")
	return cmd
}

// usualWays are what was measured earlier, on this work, under the same conditions: medians of three seeds.
const usualWays = `
Usual ways, medians of three seeds, measured earlier on this work and not in this run (lost / twice / "we cannot know"):
  JetStream consumer with a processed flag       0 /   348 / 0
  flag set before the send                     102 /     0 / 0, each lost one recorded as sent
  river with unique jobs                         0 / 1,091 / 0
  asynq with task ids                            0 /   250 / 0, hundreds still open after a minute
`

// Conditions of a comparison.
const (
	compareTimeout = 10 * time.Second // of an attempt
	compareSenders = 4                // at once: what can be on the wire when a dispatcher dies
	compareTeam    = 4                // dispatchers at work
	compareLost    = 0.02             // of the accepted calls have their reply lost
	compareWindow  = time.Hour        // for which the keyed receiver remembers
	killEarliest   = 150 * time.Millisecond
	killLatest     = 400 * time.Millisecond
	compareTelling = 15 * time.Second // over which the facts are told
	drainPatience  = 10 * time.Second // beyond the lease
)

// conditions says in words what is done.
func (c comparison) conditions() string {
	return fmt.Sprintf(`%d distinct facts, 30 %% of them told twice or three times, from %d connections over %v, each telling until the broker has it.
%d dispatchers on one PostgreSQL and one NATS (fsync before each ack): every %v to %v the one that was started first is killed with SIGKILL,
whatever it is at, its start included, and another is started in its place; at least %d times, and as long as facts are told.
The receiver takes %v to %v for each; of %.0f %% of what it took it loses the reply. %d sends at once, timeout %v, lease %v.
`, c.mails, connectionsEach*len(callers), compareTelling, compareTeam, killEarliest, killLatest, c.kills, compareLeast, compareMost,
		100*compareLost, compareSenders, compareTimeout, compareLease)
}

// run compares, seed by seed, on each of the two channels.
func (c comparison) run(ctx context.Context, out io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "onebell-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	root, binary, err := build(ctx, temp)
	if err != nil {
		return err
	}
	w := worker{root: root, binary: binary, dir: c.logs}
	if w.db, err = startDatabase(ctx, binary); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.db.close()) }()
	fmt.Fprint(out, c.conditions())
	var broken bool
	for _, channel := range []string{mailChannel, keyedChannel} {
		var all []tally
		for seed := c.first; seed < c.first+c.seeds; seed++ {
			t, err := c.once(ctx, &w, channel, seed)
			if err != nil {
				return fmt.Errorf("seed %d on %s: %w", seed, channel, err)
			}
			t.print(out, channel, seed)
			all, broken = append(all, t), broken || len(t.violations) > 0
		}
		fmt.Fprintf(out, "%s, medians: %d lost, %d twice, %d that admit \"we cannot know\"\n", channel,
			median(all, func(t tally) int { return t.lost }), median(all, func(t tally) int { return t.twice }), median(all, func(t tally) int { return t.unknown }))
	}
	fmt.Fprint(out, usualWays)
	if broken {
		return errViolated
	}
	return nil
}

func median(all []tally, of func(tally) int) int {
	var list []int
	for _, t := range all {
		list = append(list, of(t))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// print says what one run came to.
func (t tally) print(out io.Writer, channel string, seed uint64) {
	fmt.Fprintf(out, "%s, seed %d: %d facts told %d times; %d kills in %.1f s, %d of them of a dispatcher that served; %d replies lost\n",
		channel, seed, t.facts, t.tellings, t.kills, t.killing.Seconds(), t.serving, t.replies)
	fmt.Fprintf(out, "  %d lost, %d twice, %d UNKNOWN (reply lost: %d; sent and not settled at a kill: %d; claimed by a sender and not taken at a kill: %d; otherwise: %d), %d wrong, drained %.1f s after the last kill\n",
		t.lost, t.twice, t.unknown, t.byReply, t.bySettling, t.bySending, t.otherwise, t.wrong, t.drained.Seconds())
	shown := map[string]int{}
	for _, v := range t.violations {
		if shown[v.invariant]++; shown[v.invariant] > fewOfOne {
			continue
		}
		fmt.Fprintf(out, "  VIOLATION of %s: %s\n", v.invariant, v.what)
	}
}

// fewOfOne bounds how many violations of one kind are printed; all are in the folder of the logs.
const fewOfOne = 5
