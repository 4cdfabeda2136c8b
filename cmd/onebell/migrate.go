package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/migrations"
)

// migration is one line of what migrate prints.
type migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"` // by this run, or with --status: at all
}

func newMigrate(stderr *os.File) *cobra.Command {
	var status, asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema up to date",
		Long: "Applies what is pending in ONEBELL_DATABASE_URL. Safe to run again, and from several places at once: one works, the others\n" +
			"wait and find it done.",
		Example: "  ONEBELL_DATABASE_URL=postgres://onebell@db/onebell onebell migrate\n  onebell migrate --status",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(needDatabase)
			if err != nil {
				return err
			}
			list, err := migrate(cmd.Context(), cfg, status, newLogger(cfg, stderr))
			if err != nil {
				return fmt.Errorf("the database at %s: %w", hosts(cfg.DatabaseURL.value), err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			printMigrations(cmd.OutOrStdout(), list, status)
			return nil
		},
	}
	cmd.Flags().BoolVar(&status, "status", false, "list the migrations and change nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func migrate(ctx context.Context, cfg Config, status bool, log *slog.Logger) ([]migration, error) {
	run := migrations.Up
	if status {
		run = migrations.Status
	}
	list, err := run(ctx, cfg.DatabaseURL.value, log)
	out := make([]migration, 0, len(list))
	for _, m := range list {
		out = append(out, migration{Version: m.Version, Name: m.Name, Applied: !m.AppliedAt.IsZero()})
	}
	return out, err
}

func printMigrations(w io.Writer, list []migration, status bool) {
	for _, m := range list {
		state := "applied"
		if !m.Applied {
			state = "pending; run `onebell migrate`"
		}
		fmt.Fprintf(w, "%05d  %s  %s\n", m.Version, m.Name, state)
	}
	if len(list) == 0 && !status {
		fmt.Fprintln(w, "the schema is up to date")
	}
}
