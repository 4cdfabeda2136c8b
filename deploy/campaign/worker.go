package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// worker runs rounds, one after the other, on a database server of its own.
type worker struct {
	root   string // of the module
	binary string // under test
	dir    string // of the logs
	keep   bool   // the logs of every round, not only of those that found something
	db     *database
}

func (w *worker) round(ctx context.Context, seed uint64) (outcome, error) {
	r := &round{seed: seed, worker: w, dir: filepath.Join(w.dir, fmt.Sprintf("seed-%d", seed))}
	o, err := r.run(ctx)
	if err != nil && ctx.Err() == nil {
		o.violations, o.faults, o.logs = append(o.violations, violation{"the campaign itself", err.Error()}), r.record.all(), r.dir
		err = r.keep(o)
	}
	return o, err
}

// build makes the binary under test, with its fault points, from the checkout that the campaign is run in.
func build(ctx context.Context, dir string) (root, binary string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", "", fmt.Errorf("go list -m: %w; run the campaign in a checkout of onebell", err)
	}
	root, binary = strings.TrimSpace(string(out)), filepath.Join(dir, "onebell")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "onebell_faults", "-o", binary, "./cmd/onebell")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", "", fmt.Errorf("go build: %w", err)
	}
	return root, binary, nil
}
