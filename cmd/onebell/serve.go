package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

func newServe(stderr *os.File) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run a dispatcher on an external broker and database",
		Long: "Runs the roles of ONEBELL_ROLES until SIGTERM, then drains: no more requests are taken, sends that have begun are finished\n" +
			"and settled. The schema must be up to date (`onebell migrate`). Any number of dispatchers may share one broker and database.",
		Example: "  ONEBELL_DATABASE_URL=postgres://onebell@db/onebell ONEBELL_SECRET_FILE=/etc/onebell/secret \\\n" +
			"  ONEBELL_CHANNELS=mail:smtp ONEBELL_CHANNEL_MAIL_ADDR=mail.example.org:587 \\\n" +
			"  ONEBELL_CHANNEL_MAIL_FROM=receipts@example.org onebell serve",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(serveNeeds)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, stderr)
		},
	}
}

// serve runs an App until ctx ends or the App cannot go on, and drains it.
func serve(ctx context.Context, cfg Config, stderr *os.File) error {
	log := newLogger(cfg, stderr)
	cfg.show(ctx, log)
	app, err := newApp(cfg, log)
	if err != nil {
		return err
	}
	if err := app.Start(ctx); err != nil {
		if ctx.Err() != nil { // nothing is wrong, and nothing was begun
			log.Info("told to stop before it served", "error", err)
			return nil
		}
		return err
	}
	log.InfoContext(ctx, "onebell serves", "version", version(), "admin", app.Addr())
	select {
	case <-ctx.Done():
		log.Info("told to stop; draining")
	case err = <-app.Failed():
	}
	// The context that ended is the signal's; the drain has its own time.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.grace()+time.Minute)
	defer cancel()
	return errors.Join(err, app.Stop(limit))
}

// version is what the build says of itself.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
