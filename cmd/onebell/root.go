package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a command line that cannot be carried out as it stands.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported ends a command with exitFailed where everything was said already.
var errReported = errors.New("reported")

// run carries out one command line and returns its exit status.
func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) int {
	root := newRoot(stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errReported) {
		return exitFailed
	}
	fmt.Fprintln(stderr, "onebell: "+oneLine(err.Error()))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// newRoot lists the commands; logs go to stderr.
func newRoot(stderr *os.File) *cobra.Command {
	root := &cobra.Command{
		Use:   "onebell",
		Short: "One fact in, one notification out",
		Long: "onebell takes notification requests over NATS and makes sure that one fact of the business becomes one notification.\n" +
			"Settings come from the environment (ONEBELL_…); `onebell doctor` checks them.",
		Example:       "  onebell demo\n  onebell dev --data ./data\n  onebell serve",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; `onebell --help` lists the commands", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; `%s --help` shows the flags", err, cmd.CommandPath())
	})
	root.AddCommand(newDemo(stderr), newDev(stderr), newServe(stderr), newMigrate(stderr), newPublish(), newStatus(), newCancel(), newErase(stderr), newRestoreMark(stderr), newDoctor(stderr), newBench(stderr))
	return root
}

// noArgs refuses arguments with exitUsage; cobra.NoArgs would end with exitFailed.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments; `%s --help` shows the flags", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// oneLine keeps an error on one line: what scripts read is a line, and a library's error may hold more.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// printJSON prints one value, indented, for --json.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
