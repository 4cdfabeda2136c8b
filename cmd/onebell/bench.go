package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// benchResult is what bench intake found. Rates are intents settled per second.
type benchResult struct {
	N            int             `json:"n"`
	Publish      float64         `json:"publish_per_second"` // acknowledged by the broker, before the service starts
	Service      float64         `json:"service_per_second"`
	ServiceTook  float64         `json:"service_seconds"`
	Database     float64         `json:"database_per_second"`
	DatabaseTook float64         `json:"database_seconds"`
	Share        float64         `json:"share"` // service / database
	Conditions   benchConditions `json:"conditions"`
}

// benchConditions is what the figures hang on.
type benchConditions struct {
	Cores             int    `json:"cores"`
	Go                string `json:"go"`
	PostgreSQL        string `json:"postgresql"`
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	BrokerSync        string `json:"broker_sync"`
	Batch             int    `json:"batch"`
	Writers           int    `json:"writers"`
	PayloadBytes      int    `json:"payload_bytes"`
}

type benchOptions struct {
	n, batch, writers int
	durable           bool
}

func newBench(stderr *os.File) *cobra.Command {
	bench := &cobra.Command{
		Use:     "bench",
		Short:   "Measure this machine",
		Example: "  onebell bench intake\n  onebell bench intake --n 50000 --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no bench %q; there is `onebell bench intake`", args[0])
			}
			return usagef("say what to measure: `onebell bench intake`")
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	bench.AddCommand(newBenchIntake(stderr))
	return bench
}

func newBenchIntake(stderr *os.File) *cobra.Command {
	var o benchOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "intake",
		Short: "Requests settled per second, next to the database alone",
		Long: "Publishes n requests to a broker in this process, starts a dispatcher on them and measures until each is settled through a keyed\n" +
			"channel that does nothing. Then makes the same store calls (admission and settlement) without broker and dispatcher, with other keys, on the same database.\n" +
			"Everything runs on this machine: a database started for the run (or ONEBELL_DATABASE_URL, which then keeps the rows).",
		Example: "  onebell bench intake\n  onebell bench intake --n 50000 --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.n < 1 || o.batch < 1 || o.batch > 5000 || o.writers < 1 || o.writers > 8 {
				return usagef("--n must be 1 or more, --batch 1 to 5000, --writers 1 to 8")
			}
			res, err := benchIntake(cmd.Context(), o, stderr)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), res)
			}
			printBench(cmd.OutOrStdout(), res)
			return nil
		},
	}
	cmd.Flags().IntVar(&o.n, "n", 20000, "requests")
	cmd.Flags().IntVar(&o.batch, "batch", 500, "admissions per statement, database alone")
	cmd.Flags().IntVar(&o.writers, "writers", 2, "concurrent writers, database alone")
	cmd.Flags().BoolVar(&o.durable, "durable", true, "database and broker write through to the disk")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printBench(w io.Writer, r benchResult) {
	c := r.Conditions
	fmt.Fprintf(w, "published             %8.0f stored/s\n", r.Publish)
	fmt.Fprintf(w, "through the service   %8.0f settled/s   (%d requests in %.2f s)\n", r.Service, r.N, r.ServiceTook)
	fmt.Fprintf(w, "database alone        %8.0f settled/s   (%d admissions in %.2f s)\n", r.Database, r.N, r.DatabaseTook)
	fmt.Fprintf(w, "share                 %8.0f %%\n", 100*r.Share)
	fmt.Fprintf(w, "conditions: %d cores, %s, PostgreSQL %s, fsync %s, synchronous_commit %s, broker sync %s, payload %d B; alone: batches of %d, %d writers\n",
		c.Cores, c.Go, c.PostgreSQL, c.Fsync, c.SynchronousCommit, c.BrokerSync, c.PayloadBytes, c.Batch, c.Writers)
	fmt.Fprintln(w, "broker, dispatcher and database share these cores; the service starts on a full stream")
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
