package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onebell/onebell/channels"
	"github.com/onebell/onebell/dispatch/admin"
)

// finding is one line of the doctor's report.
type finding struct {
	Check   string `json:"check"`
	Result  string `json:"result"` // "ok", "warning", "problem"
	Message string `json:"message"`
}

// report collects findings.
type report struct{ findings []finding }

func (r *report) ok(check, format string, args ...any)   { r.add(check, "ok", format, args) }
func (r *report) warn(check, format string, args ...any) { r.add(check, "warning", format, args) }
func (r *report) problem(check, format string, args ...any) {
	r.add(check, "problem", format, args)
}

func (r *report) add(check, result, format string, args []any) {
	r.findings = append(r.findings, finding{check, result, oneLine(fmt.Sprintf(format, args...))})
}

func (r *report) count(result string) (n int) {
	for _, f := range r.findings {
		if f.Result == result {
			n++
		}
	}
	return n
}

func newDoctor(stderr *os.File) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check configuration, connections, broker settings, permissions, clock and channels",
		Long: "Checks everything that serve relies on, with serve's own environment, and says what to mend. It changes nothing and sends\n" +
			"nothing: channels are only connected to. Exit status 1 if there is a problem.",
		Example: "  onebell doctor\n  onebell doctor --json | jq '.[] | select(.result != \"ok\")'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := examine(cmd.Context())
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), r.findings); err != nil {
					return err
				}
			} else {
				printFindings(cmd.OutOrStdout(), r.findings)
			}
			if n := r.count("problem"); n > 0 {
				fmt.Fprintf(stderr, "onebell: %d problem(s); mend what is marked\n", n)
				return errReported
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printFindings(w io.Writer, list []finding) {
	for _, f := range list {
		mark := map[string]string{"ok": "ok  ", "warning": "warn", "problem": "BAD "}[f.Result]
		fmt.Fprintf(w, "%s  %-14s %s\n", mark, f.Check, f.Message)
	}
}

// examine runs all checks; each is bounded, and none keeps the others from running where it can.
func examine(ctx context.Context) *report {
	r := &report{}
	cfg, err := loadConfig(serveNeeds)
	if err != nil {
		for sentence := range strings.SplitSeq(err.Error(), "; ONEBELL_") {
			r.problem("configuration", "%s", "ONEBELL_"+strings.TrimPrefix(sentence, "ONEBELL_"))
		}
		return r
	}
	app, err := newApp(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		r.problem("configuration", "%v", err)
		return r
	}
	r.ok("configuration", "%d channel(s), roles %s", len(cfg.instances), cfg.Roles)
	for _, w := range cfg.warnings {
		r.warn("configuration", "%s", w)
	}
	checkTokens(cfg, r)
	examineDatabase(ctx, app, r)
	examineBroker(ctx, app, r)
	examineChannels(ctx, app.registry, r)
	return r
}

func checkTokens(cfg Config, r *report) {
	if cfg.AdminTokensFile == "" {
		return
	}
	if _, err := admin.OpenTokens(string(cfg.AdminTokensFile)); err != nil {
		r.problem("tokens", "ONEBELL_ADMIN_TOKENS_FILE: %v", err)
		return
	}
	r.ok("tokens", "the tokens file can be read")
}

// probeLimit bounds the check of one part.
const probeLimit = 20 * time.Second

func examineDatabase(ctx context.Context, app *App, r *report) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := app.checkSchema(ctx); err != nil {
		r.problem("database", "%v", err)
		return
	}
	r.ok("schema", "up to date")
	if err := app.openStore(ctx); err != nil {
		r.problem("database", "%v", err)
		return
	}
	defer func() { _ = app.down.run(ctx, app.log) }()
	before := time.Now()
	now, err := app.store.Clock(ctx)
	if err != nil {
		r.problem("database", "its clock cannot be read: %v", err)
		return
	}
	r.ok("database", "a primary at %s that takes writes", hosts(app.cfg.DatabaseURL.value))
	examineClock(now, before, time.Now(), r)
}

// Skews that matter. Leases and windows are counted by the database's clock alone; what a wrong clock here breaks is times that
// producers on this host stamp, and reading logs side by side.
const (
	skewWarning = 2 * time.Second
	skewProblem = time.Minute
)

// examineClock compares the database's clock with readings taken here before and after.
func examineClock(database, before, after time.Time, r *report) {
	var skew time.Duration
	switch {
	case database.Before(before):
		skew = before.Sub(database)
	case database.After(after):
		skew = database.Sub(after)
	}
	switch {
	case skew >= skewProblem:
		r.problem("clock", "this host and the database differ by %s; set up time synchronisation on both", skew.Round(time.Second))
	case skew >= skewWarning:
		r.warn("clock", "this host and the database differ by %s; check time synchronisation", skew.Round(100*time.Millisecond))
	default:
		r.ok("clock", "agrees with the database's")
	}
}

func examineChannels(ctx context.Context, registry *channels.Registry, r *report) {
	for _, e := range registry.All() {
		name := "channel " + e.Name
		prober, ok := e.Channel.(channels.Prober)
		if !ok {
			r.ok(name, "%s, %s; nothing to connect to", e.Type, e.Channel.Contract().Guarantee)
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, probeLimit)
		err := prober.Probe(ctx)
		cancel()
		if err != nil {
			r.problem(name, "%v", err)
			continue
		}
		r.ok(name, "%s, %s; it answers", e.Type, e.Channel.Contract().Guarantee)
	}
}
