package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options are the settings of a Store. The zero value will do.
type Options struct {
	MaxConns        int32        // 0: 8. Two are enough; more than the database has cores for is of no use
	ApplicationName string       // shown in pg_stat_activity; "": onebell
	Log             *slog.Logger // nil: nothing is logged
}

// Store is the intent store. It is safe for concurrent use. No method holds a connection while it returns, none uses a second
// connection while it holds one, and every wait for a connection or a statement is bounded.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
}

// Bounds of one step: waiting for a connection, and one transaction from its first statement to its last.
const (
	acquireFor = 10 * time.Second
	stepFor    = 30 * time.Second
)

// minServer is the oldest server that the statements are written for, as server_version_num has it.
const minServer = 150000

// Open connects to the database at url, which must be a primary that takes writes, PostgreSQL 15 or newer, migrated. The errors
// hold no part of the URL but host and database.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx's own error may quote the URL, and a password in it.
		return nil, errors.New("the database URL cannot be read; it should look like postgres://user:password@host:5432/name")
	}
	cfg.MaxConns = o.MaxConns
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 8
	}
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	// Nothing is prepared under a name: a plan cannot go stale, and poolers that share connections are no obstacle.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	cfg.ConnConfig.ConnectTimeout = acquireFor
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = or(o.ApplicationName, "onebell")
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sessionSQL)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s := &Store{pool: pool, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.checkServer(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// checkServer refuses a server that cannot do the work, in words that say what to do.
func (s *Store) checkServer(ctx context.Context) error {
	var version int
	var readOnly, migrated bool
	err := s.do(ctx, "check the server", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, serverSQL).Scan(&version, &readOnly, &migrated)
	})
	at := fmt.Sprintf("the database server at %s:%d", s.pool.Config().ConnConfig.Host, s.pool.Config().ConnConfig.Port)
	switch {
	case err != nil:
		return fmt.Errorf("%s cannot be used (it must be a primary, and reachable): %w", at, err)
	case readOnly:
		return fmt.Errorf("%s is read-only; point ONEBELL_DATABASE_URL at the primary, or end default_transaction_read_only there", at)
	case version < minServer:
		return fmt.Errorf("%s is PostgreSQL %d; version 15 or newer is needed", at, version/10000)
	case !migrated:
		return fmt.Errorf("%s has no tables of onebell in database %q; run `onebell migrate`", at, s.pool.Config().ConnConfig.Database)
	}
	return nil
}

// Close waits for running calls and closes the connections.
func (s *Store) Close() { s.pool.Close() }

// Clock returns the database's clock.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.do(ctx, "read the clock", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, clockSQL).Scan(&now)
	})
	return now, err
}

func or(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}
