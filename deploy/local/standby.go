package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// StandbyName is how a standby made here is called where the primary's synchronous_standby_names asks for it.
const StandbyName = "standby"

// Standby copies the running server to a folder and a port of the copy's own and starts it as a standby that follows this one: all
// that commits here arrives there, some time later unless synchronous_standby_names says otherwise. It takes reads alone until Promote.
// It has the same users and passwords. ctx bounds the copy and the start.
func (p *Postgres) Standby(ctx context.Context) (_ *Postgres, err error) {
	h, err := openHome("", p.opts.InMemory, p.as)
	if err != nil {
		return nil, err
	}
	opts := p.opts
	opts.Dir, opts.Port = "", 0
	s := &Postgres{opts: opts, as: p.as, home: h, bin: p.bin, password: p.password, log: p.log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.copyFrom(ctx, p, s.home.data(), "--write-recovery-conf"); err != nil {
		return nil, err
	}
	return s, s.firstStart(ctx)
}

// copyFrom fills a folder with a base backup. The password goes by a file: an argument could be read.
func (p *Postgres) copyFrom(ctx context.Context, primary *Postgres, folder string, how ...string) error {
	pass := filepath.Join(p.home.dir, "pgpass")
	if err := os.WriteFile(pass, fmt.Appendf(nil, "*:*:*:%s:%s\n", superuser, primary.password), 0o600); err != nil {
		return err
	}
	if err := p.as.give(pass); err != nil {
		return err
	}
	source := fmt.Sprintf("host=%s port=%d user=%s passfile=%s application_name=%s", loopback, primary.port, superuser, pass, StandbyName)
	args := append([]string{"--pgdata", folder, "--dbname", source, "--wal-method=stream", "--checkpoint=fast"}, how...)
	if !p.opts.Durable {
		args = append(args, "--no-sync")
	}
	return p.home.run(ctx, filepath.Join(p.bin.Dir, "pg_basebackup"), "", args...)
}

// Promote makes a standby a primary of its own: it takes writes when Promote returns. Whom it followed must be gone by then; nothing
// here sees to that.
func (p *Postgres) Promote(ctx context.Context) error {
	return p.home.run(ctx, filepath.Join(p.bin.Dir, "pg_ctl"), "", "promote", "--wait", "--pgdata", p.home.data())
}

// isReady reports whether that is what a server writes into postmaster.pid once it takes connections.
func isReady(word string) bool {
	return strings.TrimSpace(word) == "ready" || strings.TrimSpace(word) == "standby"
}
