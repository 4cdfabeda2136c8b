// Package pgtest gives tests a real PostgreSQL: one server per test binary with a migrated database per test, private
// servers to stop and kill, and a proxy that loses requests and replies. A machine without PostgreSQL fails the tests;
// nothing is skipped.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/migrations"
)

const (
	template = "onebell_template"
	patience = 3 * time.Minute
)

// shared is the server of this test binary, started by the first New.
var shared struct {
	sync.Mutex
	started bool
	err     error
	pg      *local.Postgres
	admin   *pgx.Conn // one connection for "create database": they would wait for each other anyway
}

// Main runs the tests and stops the binary's server afterwards:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// Without it the server ends with the process all the same (on Linux), but its folder stays until a later run clears it.
func Main(m *testing.M) int {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Println("pgtest:", err)
		return max(code, 1)
	}
	return code
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = shared.admin.Close(ctx)
	}
	if shared.pg != nil {
		err = errors.Join(err, shared.pg.Close())
	}
	shared.admin, shared.pg, shared.started = nil, nil, false
	return err
}

// New makes a migrated database on the binary's server and returns its URL. It is dropped when the test ends; by then
// the test should have closed its connections, those left are cut. Commits there do not survive a crash of the machine
// (fsync is off); take a Cluster for tests that stop the server.
func New(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.started {
		shared.started = true
		shared.pg, shared.admin, shared.err = startShared()
	}
	if shared.err != nil {
		t.Fatalf("pgtest: %v", shared.err)
	}
	name := "t_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec(t, shared.admin, "create database "+name+" template "+template+" strategy file_copy")
	t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		exec(t, shared.admin, "drop database "+name+" with (force)")
	})
	return withDatabase(shared.pg.URL(), name)
}

func exec(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

func startShared() (_ *local.Postgres, _ *pgx.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pg, err := local.StartPostgres(ctx, local.PostgresOptions{
		InMemory: true, Settings: map[string]string{"max_connections": "200"}, // tests run beside each other, some with half a dozen processes
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, pg.Close())
		}
	}()
	admin, err := pgx.Connect(ctx, pg.URL())
	if err != nil {
		return nil, nil, err
	}
	if _, err := admin.Exec(ctx, "create database "+template); err != nil {
		return nil, nil, err
	}
	if _, err := migrations.Up(ctx, withDatabase(pg.URL(), template), slog.New(slog.DiscardHandler)); err != nil {
		return nil, nil, err
	}
	return pg, admin, nil
}

// Option changes how a Cluster is run.
type Option func(*local.PostgresOptions)

// Durable turns fsync on, as in production.
func Durable() Option {
	return func(o *local.PostgresOptions) { o.Durable, o.InMemory = true, false }
}

// Settings sets server settings by name.
func Settings(settings map[string]string) Option {
	return func(o *local.PostgresOptions) { o.Settings = settings }
}

// Cluster starts a server of the test's own, to be stopped, killed and restarted, with one migrated database: its URL.
// It is removed when the test ends. Starting takes a second or two.
func Cluster(t testing.TB, opts ...Option) *local.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := local.PostgresOptions{InMemory: true}
	for _, opt := range opts {
		opt(&o)
	}
	pg, err := local.StartPostgres(ctx, o)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	if _, err := migrations.Up(ctx, pg.URL(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return pg
}

// withDatabase is url with another database's name.
func withDatabase(url, name string) string {
	base, query, _ := strings.Cut(url, "?")
	return base[:strings.LastIndex(base, "/")+1] + name + "?" + query
}
