package main

import (
	"context"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/pgstore"
)

// The commands by which a person changes the data itself, with a reason that stays on record: erase, restore-mark.

// actFlags are who does it, and why.
type actFlags struct{ actor, reason string }

func (f *actFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the audit; name no person in it")
	cmd.Flags().StringVar(&f.actor, "actor", "", "who does it, for the audit (default: the user of this system)")
}

// act refuses what the audit could not keep.
func (f *actFlags) act() (intents.Act, error) {
	if f.reason == "" {
		return intents.Act{}, usagef("--reason is required: it stands in the audit")
	}
	act := intents.Act{Actor: f.actor, Reason: f.reason}
	if act.Actor == "" {
		if u, err := user.Current(); err == nil {
			act.Actor = u.Username
		}
	}
	if act.Actor == "" {
		return intents.Act{}, usagef("--actor is required: this system does not know who you are")
	}
	if host, err := os.Hostname(); err == nil {
		act.Place = host
	}
	return act, nil
}

// withStore opens the store for one command, under a name by which others know that it is no dispatcher.
func withStore(ctx context.Context, cfg Config, stderr *os.File, command string, do func(*pgstore.Store) error) error {
	if err := checkSchema(ctx, cfg, newLogger(cfg, stderr)); err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, cfg.DatabaseURL.value, pgstore.Options{MaxConns: 2, ApplicationName: "onebell " + command, Log: newLogger(cfg, stderr)})
	if err != nil {
		return err
	}
	defer store.Close()
	return do(store)
}
