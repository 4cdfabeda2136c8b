package migrations

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/deploy/local"
)

// childEnv tells this test binary that it is a replica which migrates the database at that URL, slowly.
const childEnv = "ONEBELL_MIGRATIONS_CHILD"

const patience = 5 * time.Minute // longer than a slow machine takes for anything

// server is this test binary's own; pgtest stands on this package and cannot serve it.
var server *local.Postgres

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if url, isChild := os.LookupEnv(childEnv); isChild {
		_, err := runner{url: url, files: slowSchema(), log: slog.New(slog.NewTextHandler(os.Stderr, nil))}.up(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if server, err = local.StartPostgres(ctx, local.PostgresOptions{InMemory: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// emptyDatabase makes one and returns its URL.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text())
	execute(t, server.URL(), "create database "+name)
	base, query, _ := strings.Cut(server.URL(), "?")
	return base[:strings.LastIndex(base, "/")+1] + name + "?" + query
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
	return conn
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// count runs a statement that answers one number.
func count(t *testing.T, url, sql string) int {
	t.Helper()
	conn := connect(t, url)
	var n int
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// until polls a condition of the database with a deadline.
func until(t *testing.T, url, sql string, want int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); count(t, url, sql) != want; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s never answered %d", sql, want)
		}
	}
}

// with is the schema and further files.
func with(more map[string]string) fs.FS {
	all := fstest.MapFS{}
	err := fs.WalkDir(schema(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schema(), name)
		all[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		panic(err)
	}
	for name, text := range more {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// only is the schema's first files.
func only(t *testing.T, n int) fs.FS {
	t.Helper()
	all, err := runner{files: schema()}.known()
	if err != nil {
		t.Fatal(err)
	}
	some := fstest.MapFS{}
	for _, m := range all[:n] {
		text, err := fs.ReadFile(schema(), m.Name)
		if err != nil {
			t.Fatal(err)
		}
		some[m.Name] = &fstest.MapFile{Data: text}
	}
	return some
}

// gate is the advisory lock at which the slow migration waits in its middle, as long as the test holds it.
const gate = 4711

// slowSchema ends with a migration of data alone: two that ran at once would not get in each other's way by themselves.
func slowSchema() fs.FS {
	return with(map[string]string{"90001_slow.sql": fmt.Sprintf(`-- +goose Up
set local lock_timeout = '10min';
insert into duties values (gen_random_uuid()::text, 'first half', now());
select pg_advisory_xact_lock(%d);
insert into duties values (gen_random_uuid()::text, 'second half', now());
`, gate)})
}

func on(url string, files fs.FS) runner {
	return runner{url: url, files: files, log: slog.New(slog.DiscardHandler)}
}

func mustUp(t *testing.T, url string, files fs.FS) []Migration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	applied, err := on(url, files).up(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func wantError(t *testing.T, err, want error, words string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %v with %q", err, want, words)
	}
}
