package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// command runs one of onebell's commands with a dispatcher's environment, as a process of its own.
func (w *town) command(input, line string) (stdout, stderr string, status int) {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), childMark + "=" + line}, w.env()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}
