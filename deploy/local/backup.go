package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Backup takes a base backup of the running server, by pg_basebackup, in the place of an earlier one. It stays in the server's folder. ctx
// bounds it.
func (p *Postgres) Backup(ctx context.Context) error {
	if err := os.RemoveAll(p.backup()); err != nil {
		return err
	}
	return p.copyFrom(ctx, p, p.backup())
}

// RestoreBackup stops the server where it runs, puts the backup in the place of its data, and starts it: what came after the backup is
// gone, and the backup is used up. ctx bounds the start.
func (p *Postgres) RestoreBackup(ctx context.Context) error {
	if _, err := os.Stat(p.backup()); err != nil {
		return errors.New("there is no backup")
	}
	if err := p.Stop(Fast); err != nil {
		return err
	}
	if err := os.RemoveAll(p.home.data()); err != nil {
		return err
	}
	if err := os.Rename(p.backup(), p.home.data()); err != nil {
		return err
	}
	return p.Restart(ctx)
}

func (p *Postgres) backup() string { return filepath.Join(p.home.dir, "backup") }
