// Package migrations holds the database schema and brings a database to it. Processes that start together may all call
// Up: one of them works, the others wait and find it done.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed sql/*.sql
var embedded embed.FS

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string // the file's
	// AppliedAt is zero for a pending one.
	AppliedAt time.Time
}

// Up applies what is pending and returns that, oldest first. It waits while another process migrates. Safe to call again
// after any failure: a migration is applied whole or not at all.
func Up(ctx context.Context, url string, log *slog.Logger) ([]Migration, error) {
	r := runner{url: url, files: schema(), log: log}
	return r.up(ctx)
}

// Status lists every migration that this binary knows, oldest first.
func Status(ctx context.Context, url string, log *slog.Logger) ([]Migration, error) {
	r := runner{url: url, files: schema(), log: log}
	return r.status(ctx)
}

func schema() fs.FS {
	sub, err := fs.Sub(embedded, "sql")
	if err != nil {
		panic(err) // the name is a constant that the compiler has embedded
	}
	return sub
}

// runner applies one set of files to one database.
type runner struct {
	url   string
	files fs.FS
	log   *slog.Logger
}

func (r runner) up(ctx context.Context) (_ []Migration, err error) {
	p, closeAll, err := r.provider()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	applied := make([]Migration, 0, len(results))
	for _, result := range results {
		applied = append(applied, Migration{Version: result.Source.Version, Name: path.Base(result.Source.Path), AppliedAt: time.Now()})
	}
	return applied, nil
}

func (r runner) status(ctx context.Context) (_ []Migration, err error) {
	p, closeAll, err := r.provider()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	known, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	list := make([]Migration, 0, len(known))
	for _, m := range known {
		list = append(list, Migration{Version: m.Source.Version, Name: path.Base(m.Source.Path), AppliedAt: m.AppliedAt})
	}
	return list, nil
}

const (
	// leaseFor is how long a killed process keeps the others waiting.
	leaseFor   = 10 * time.Second
	leaseBeat  = 2 * time.Second
	probeEvery = 200 * time.Millisecond
	probes     = 3000 // ten minutes: longer than any migration; the context may end the wait sooner
)

func (r runner) provider() (*goose.Provider, func() error, error) {
	db, err := r.open()
	if err != nil {
		return nil, nil, err
	}
	// A row with a lease, not an advisory lock: behind a pooler that hands out connections by transaction, a lock of the
	// session belongs to somebody else the moment it is taken.
	locker, err := lock.NewPostgresTableLocker(lock.WithTableLeaseDuration(leaseFor), lock.WithTableHeartbeatInterval(leaseBeat),
		lock.WithTableLockTimeout(probeEvery, probes), lock.WithTableUnlockTimeout(probeEvery, 10), lock.WithTableLogger(r.log))
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, r.files, goose.WithLocker(locker), goose.WithSlog(r.log), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return p, p.Close, nil
}

func (r runner) open() (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(r.url)
	if err != nil {
		return nil, errors.New("the database URL cannot be read; it should look like postgres://user:password@host:5432/name") // pgx's error may hold parts of it
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // no prepared statements: they do not outlive a transaction behind a pooler
	return stdlib.OpenDB(*cfg), nil
}
