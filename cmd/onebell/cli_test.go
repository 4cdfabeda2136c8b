package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onebell/onebell/migrations/pgtest"
)

// exits runs a command and demands its exit status, and after a failure one line on standard error that begins with "onebell: ".
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	stderr := ts.ReadFile("stderr")
	if got != want {
		ts.Fatalf("exit status %d, want %d: %s", got, want, stderr)
	}
	if want == exitOK {
		return
	}
	said := slices.DeleteFunc(strings.Split(strings.TrimSuffix(stderr, "\n"), "\n"), func(line string) bool { return strings.HasPrefix(line, "{") }) // the log
	if len(said) != 1 || !strings.HasPrefix(said[0], "onebell: ") {
		ts.Fatalf("standard error is not one line that begins with onebell: %q", stderr)
	}
	if strings.Contains(stderr, canary) {
		ts.Fatalf("standard error shows a value: %q", stderr)
	}
}

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){"exits": exits}

func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: scriptCommands, RequireExplicitExec: true, RequireUniqueNames: true})
}

// hostForTest is a whole onebell on a database of the test's own.
func hostForTest(t *testing.T, o oneHostOptions) *oneHost {
	t.Helper()
	setEnv(t, nil)
	log := slog.New(slog.DiscardHandler)
	o.databaseURL = pgtest.New(t)
	h, err := startOneHost(t.Context(), o, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.stop(context.Background(), log); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return h
}

func TestCommandLineAgainstARunningService(t *testing.T) {
	h := hostForTest(t, oneHostOptions{})
	t.Run("scripts", func(t *testing.T) { // its scripts run in parallel: it returns when they are over
		testscript.Run(t, testscript.Params{
			Dir: "testdata/live", Cmds: scriptCommands, RequireExplicitExec: true, RequireUniqueNames: true,
			Setup: func(env *testscript.Env) error {
				env.Setenv("ONEBELL_NATS_URL", h.stack.broker.URL())
				env.Setenv("ADMIN", "http://"+h.app.Addr())
				env.Setenv("AT", time.Now().UTC().Format(time.RFC3339))
				return writeRequests(env.WorkDir)
			},
		})
	})
	mails := h.inbox.Mails()
	if len(mails) != 1 || mails[0].Subject != "Your receipt" {
		t.Errorf("%d mails arrived, want the receipt alone", len(mails))
	}
}

// writeRequests writes the payloads of the scripts, whose times must be of today.
func writeRequests(dir string) error {
	at := time.Now().UTC()
	const form = `{"key":%q,"occurred_at":%q,"recipient":"ada@example.org","content":{"subject":"Your receipt","text":%q}%s}`
	for name, payload := range map[string]string{
		"request.json": fmt.Sprintf(form, "receipt-mail:8841", at.Format(time.RFC3339), "Thank you.", ""),
		"other.json":   fmt.Sprintf(form, "receipt-mail:8841", at.Format(time.RFC3339), "Something else.", ""),
		"later.json":   fmt.Sprintf(form, "reminder:1", at.Format(time.RFC3339), "Soon.", fmt.Sprintf(`,"not_before":%q`, at.Add(time.Hour).Format(time.RFC3339))),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(payload), 0o600); err != nil {
			return err
		}
	}
	return nil
}
