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
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// Up applies what is pending and returns that, oldest first: empty where nothing was. It waits while another process
// migrates. Safe to call again after any failure: a migration is applied whole or not at all. A database that a newer
// onebell has migrated is left alone; where this binary cannot work on it the error is ErrNewer.
func Up(ctx context.Context, url string, log *slog.Logger) ([]Migration, error) {
	return runner{url: url, files: schema(), log: log}.up(ctx)
}

func schema() fs.FS {
	sub, err := fs.Sub(embedded, "sql")
	if err != nil {
		panic(err) // the name is a constant that the compiler has embedded
	}
	return sub
}

// runner brings one database to one set of files.
type runner struct {
	url   string
	files fs.FS
	log   *slog.Logger
}

// upTries and upPause bound how often Up tries again: after a collision with the transaction of a process that was
// killed, until the server notices; with one that was frozen past its lease; after a lost connection.
const (
	upTries = 6
	upPause = time.Second
)

func (r runner) up(ctx context.Context) ([]Migration, error) {
	if err := r.mayMigrate(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		applied, err := r.upOnce(ctx)
		if err == nil || try == upTries || isFinal(err) {
			return applied, err
		}
		r.log.Warn("migrating did not work out and is tried again", "error", err, "try", try)
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(upPause):
		}
	}
}

// isFinal tells a migration that the server refuses from one that met somebody else: the transaction of the latter was
// rolled back whole, or is found applied by the next try.
func isFinal(err error) bool {
	const lockTimeout, deadlock, serialization, sameVersion, tableExists = "55P03", "40P01", "40001", "23505", "42P07"
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
	return !slices.Contains([]string{lockTimeout, deadlock, serialization, sameVersion, tableExists}, answer.Code)
}

func (r runner) upOnce(ctx context.Context) (_ []Migration, err error) {
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	applied := make([]Migration, 0, len(results))
	for _, result := range results {
		m := Migration{Version: result.Source.Version, Name: path.Base(result.Source.Path), AppliedAt: time.Now()}
		r.log.Info("migration applied", "name", m.Name, "took", result.Duration)
		applied = append(applied, m)
	}
	return applied, nil
}

const (
	// leaseFor is how long a killed process keeps the others waiting.
	leaseFor   = 10 * time.Second
	leaseBeat  = 2 * time.Second
	probeEvery = 200 * time.Millisecond
	probes     = 3000 // ten minutes, as long as one statement may take; the context may end the wait sooner
)

func (r runner) provider() (*goose.Provider, error) {
	db, err := r.open()
	if err != nil {
		return nil, err
	}
	// A row with a lease, not an advisory lock: behind a pooler that hands out connections by transaction, a lock of the
	// session belongs to somebody else the moment it is taken.
	locker, err := lock.NewPostgresTableLocker(lock.WithTableLeaseDuration(leaseFor), lock.WithTableHeartbeatInterval(leaseBeat),
		lock.WithTableLockTimeout(probeEvery, probes), lock.WithTableUnlockTimeout(probeEvery, 10), lock.WithTableLogger(r.log))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, r.files, goose.WithLocker(locker), goose.WithSlog(r.log), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return p, nil
}

func (r runner) open() (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(r.url)
	if err != nil { // not wrapped: it may hold parts of the URL
		return nil, errors.New("the database URL cannot be read; it should look like postgres://user:password@host:5432/name")
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // no prepared statements: they do not outlive a transaction behind a pooler
	return stdlib.OpenDB(*cfg), nil
}
