package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/dispatch/wire"
)

// Sizes of a row.
const (
	hostFacts   = 600
	tellingTime = 24 * time.Second
	strikeAfter = 6 * time.Second
)

func newHosts() *cobra.Command {
	var only []string
	logs := filepath.Join(os.TempDir(), "onebell-hosts")
	cmd := &cobra.Command{
		Use:   "hosts",
		Short: "Fail brokers, databases and networks as hosts do, and print what each class of deployment keeps",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runHosts(cmd.Context(), only, logs, cmd.OutOrStdout())
		},
	}
	var names []string
	for _, d := range deployments {
		names = append(names, d.name)
	}
	cmd.Flags().StringVar(&logs, "logs", logs, "folder for the logs")
	cmd.Flags().StringSliceVar(&only, "only", nil, "rows to run, of "+strings.Join(names, ", "))
	return cmd
}

// row is what became of one deployment.
type row struct {
	outcome
	lost   int // requests that a producer was told are admitted, and the database did not know after the fault
	stale  int // facts that were refused when they were told again
	broken []violation
}

func runHosts(ctx context.Context, only []string, logs string, out io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "onebell-hosts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	root, binary, err := build(ctx, temp)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "deployment\tfault\trequests\tadmitted and lost\tseen twice, keyed\tseen twice, mail and plain hooks\tUNKNOWN\trefused when told again\tbroken promises")
	defer func() { err = errors.Join(err, table.Flush()) }()
	broken := 0
	for n, d := range deployments {
		if len(only) > 0 && !slices.Contains(only, d.name) {
			continue
		}
		r, err := newSite(d, root, binary, logs, uint64(n)+1).play(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", d.class, d.fault, r.summary.intents, r.lost, r.summary.keyedTwice, r.summary.visibleTwice, r.summary.unknown, r.stale, len(r.broken))
		for _, v := range r.broken {
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", d.name, v.invariant, v.what)
		}
		broken += len(r.broken)
	}
	if broken > 0 {
		return errViolated
	}
	return nil
}

// play is the whole row.
func (s *site) play(ctx context.Context) (r row, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer s.down()
	defer stop()
	if err := s.up(ctx); err != nil {
		return r, err
	}
	if err := s.serve(ctx); err != nil {
		return r, fmt.Errorf("no dispatcher serves: %w", err)
	}
	go s.watcher.run(ctx)
	go func() { s.telling <- s.producers.run(ctx, tellingTime) }()
	if !pause(ctx, strikeAfter) {
		return r, ctx.Err()
	}
	if err := s.d.strike(ctx, s); err != nil {
		return r, fmt.Errorf("the fault: %w", err)
	}
	if s.d.retold {
		if r.lost, err = s.tellAgain(ctx); err != nil {
			return r, err
		}
	}
	s.mended = time.Now()
	api, err := s.api()
	if err != nil {
		return r, err
	}
	s.worker.keep = true
	if r.outcome, err = s.judge(ctx, api, r.outcome); err != nil {
		return r, errors.Join(fmt.Errorf("what was left: %w", err), s.keep(r.outcome))
	}
	switch seen := r.summary.keyedTwice + r.summary.visibleTwice; {
	case !s.d.lossy:
		r.broken = r.violations
	case s.d.once && seen > 0:
		r.broken = []violation{{"I1", fmt.Sprintf("%d facts were seen twice", seen)}}
	}
	r.stale = s.refusedAgain()
	return r, nil
}

// tellAgain waits for the producers, counts what they were told is admitted and the database does not have, and lets them tell
// everything ordinary a second time.
func (s *site) tellAgain(ctx context.Context) (lost int, err error) {
	if err := <-s.telling; err != nil {
		return 0, err
	}
	conn, err := s.worker.db.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, t := range s.producers.told() {
		if t.verdict != wire.Accepted {
			continue
		}
		var known bool
		if err := conn.QueryRow(ctx, "select exists (select from intents where id = $1::text::uuid)", t.intent).Scan(&known); err != nil {
			return 0, err
		}
		if !known {
			lost++
		}
	}
	again := s.producers.plan[:0:0]
	for _, t := range s.producers.plan {
		if t.sort == ordinary && t.way != cancelling {
			again = append(again, t)
		}
	}
	s.producers.plan = again
	go func() { s.telling <- s.producers.run(ctx, tellingTime/4) }()
	return lost, nil
}

// refusedAgain counts the facts that were admitted once and refused as stale afterwards.
func (s *site) refusedAgain() int {
	facts := map[identity]bool{}
	for _, t := range s.producers.told() {
		if t.sort == ordinary && t.verdict == wire.Stale {
			facts[t.of] = true
		}
	}
	return len(facts)
}
