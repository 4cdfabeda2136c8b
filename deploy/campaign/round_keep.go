package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keep writes the logs of a round that found something, and removes the folder of one that did not.
func (r *round) keep(o outcome) error {
	if len(o.violations) == 0 && !r.worker.keep {
		return os.RemoveAll(r.dir)
	}
	var found strings.Builder
	for _, v := range o.violations {
		fmt.Fprintf(&found, "%s: %s\n", v.invariant, v.what)
	}
	found.WriteString("\nfaults:\n")
	for _, f := range o.faults {
		fmt.Fprintf(&found, "%s %s\n", f.at.Format(time.RFC3339Nano), f.kind)
	}
	err := os.WriteFile(filepath.Join(r.dir, "violations.txt"), []byte(found.String()), 0o600)
	for n, s := range r.slots {
		for m, d := range s.lives {
			name := fmt.Sprintf("dispatcher-%d-%02d-pid%d.log", n, m, d.cmd.Process.Pid)
			err = errors.Join(err, os.WriteFile(filepath.Join(r.dir, name), d.log.bytes(), 0o600))
		}
	}
	return err
}

// keepEvidence writes what was compared, and what the database holds in the end, of a round that found something.
func (r *round) keepEvidence(ctx context.Context, e evidence, o outcome) error {
	if len(o.violations) == 0 && !r.worker.keep {
		return nil
	}
	return errors.Join(r.keepTables(ctx), keepLines(filepath.Join(r.dir, "calls.txt"), e.effects), keepLines(filepath.Join(r.dir, "told.txt"), e.told))
}

func (r *round) keepTables(ctx context.Context) (err error) {
	conn, err := r.worker.db.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, table := range []string{"intents", "attempts", "changes", "evidence", "refusals", "keys", "keys_older", "agenda", "claim_batches", "watermark", "outbox"} {
		f, err := os.Create(filepath.Join(r.dir, table+".csv"))
		if err != nil {
			return err
		}
		_, err = conn.PgConn().CopyTo(ctx, f, "copy (select * from "+table+" order by 1) to stdout (format csv, header)")
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func keepLines[T any](path string, list []T) error {
	var text strings.Builder
	for _, item := range list {
		fmt.Fprintf(&text, "%+v\n", item)
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}
