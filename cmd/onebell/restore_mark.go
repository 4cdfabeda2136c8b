package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
)

func newRestoreMark(stderr *os.File) *cobra.Command {
	var f actFlags
	var gap, until string
	var stopped, dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "restore-mark",
		Short: "Mark a database that was restored from a backup, before anything is sent from it",
		Long: "What a backup has as open may have been sent since it was taken. Run this after a restore, or after a failover that lost the end of the\n" +
			"log, with every dispatcher stopped: open requests on channels where a repeat would be seen become UNKNOWN, keyed ones go out again under\n" +
			"their keys inside the key window, and what is not due yet waits as before.\n\n" +
			"Requests that were admitted after the backup are gone; their producers may tell them again. --gap refuse refuses every fact that occurred up\n" +
			"to --until and is not remembered (stale, visible as a refusal): nothing of the gap is sent twice, and what was not sent yet has to be told\n" +
			"under a new key. --gap accept takes them in as new: what had been sent is sent again.",
		Example: "  onebell restore-mark --gap refuse --reason \"restored the backup of 04:00\" --dry-run\n" +
			"  onebell restore-mark --gap refuse --reason \"restored the backup of 04:00\"",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := intents.Restoration{Stopped: stopped, DryRun: dryRun, Refuse: gap == "refuse"}
			var err error
			switch {
			case gap != "refuse" && gap != "accept":
				return usagef("--gap must be refuse or accept; `onebell restore-mark --help` says what each means")
			case until != "":
				if r.Until, err = time.Parse(time.RFC3339, until); err != nil {
					return usagef("--until must look like 2026-11-30T10:00:00Z")
				}
			}
			if r.Act, err = f.act(); err != nil {
				return err
			}
			cfg, err := loadConfig(needDatabase)
			if err != nil {
				return err
			}
			return withStore(cmd.Context(), cfg, stderr, "restore-mark", func(s *pgstore.Store) error {
				return restoreMark(cmd.Context(), s, r, asJSON, cmd.OutOrStdout())
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&gap, "gap", "", "what to do with facts that occurred before --until and are not remembered: refuse or accept; required")
	cmd.Flags().StringVar(&until, "until", "", "when the last dispatcher that worked on the lost data was stopped, RFC 3339 (default: now, by the database's clock)")
	cmd.Flags().BoolVar(&stopped, "stopped", false, "every dispatcher is stopped: leases that still stand are the backup's")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// restored is what restore-mark prints.
type restored struct {
	DryRun    bool              `json:"dry_run"`
	Run       string            `json:"run,omitempty"` // in the audit
	Until     time.Time         `json:"until"`
	Watermark *time.Time        `json:"watermark"` // facts up to then are refused unless they are remembered
	Channels  []restoredChannel `json:"channels"`
}

type restoredChannel struct {
	Channel   string `json:"channel"`
	Unknown   int    `json:"unknown"`
	InDoubt   int    `json:"pending_in_doubt"`
	Succeeded int    `json:"succeeded"`
	NotDue    int    `json:"not_due"`
	Before    int    `json:"marked_before"`
}

func restoreMark(ctx context.Context, s *pgstore.Store, r intents.Restoration, asJSON bool, out io.Writer) error {
	done, err := s.Restore(ctx, r)
	if err != nil {
		return err
	}
	p := restored{DryRun: r.DryRun, Until: done.Until, Channels: []restoredChannel{}}
	if done.Run != uuid.Nil {
		p.Run = done.Run.String()
	}
	if !done.Watermark.IsZero() {
		p.Watermark = &done.Watermark
	}
	for _, c := range done.Channels {
		p.Channels = append(p.Channels, restoredChannel{c.Channel, c.Unknown, c.InDoubt, c.Succeeded, c.NotDue, c.Before})
	}
	if asJSON {
		return printJSON(out, p)
	}
	if r.DryRun {
		fmt.Fprintln(out, "nothing was changed; this would be done:")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "channel\tunknown now\tsent again under its key\tsucceeded\tnot due, waits\tmarked before")
	for _, c := range p.Channels {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\n", c.Channel, c.Unknown, c.InDoubt, c.Succeeded, c.NotDue, c.Before)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Refuse {
		fmt.Fprintf(out, "facts that occurred up to %s are refused unless they are remembered\n", done.Watermark.UTC().Format(time.RFC3339))
	} else {
		fmt.Fprintln(out, "facts of the gap are taken in as new: what had been sent is sent again when it is told again")
	}
	return nil
}
