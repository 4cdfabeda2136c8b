package migrations

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestOlderSchemaSaysWhatToRun(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	wantError(t, on(url, schema()).check(t.Context()), ErrOlder, "onebell migrate")
	mustUp(t, url, only(t, 1))
	wantError(t, on(url, schema()).check(t.Context()), ErrOlder, "00002")
	mustUp(t, url, schema())
	if err := on(url, schema()).check(t.Context()); err != nil {
		t.Error(err)
	}
	if again := mustUp(t, url, schema()); len(again) != 0 {
		t.Errorf("applied again: %v", again)
	}
}

func TestCheckAndStatusChangeNothing(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	wantError(t, Check(t.Context(), url, slog.New(slog.DiscardHandler)), ErrOlder, "")
	list, err := Status(t.Context(), url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if !m.AppliedAt.IsZero() {
			t.Errorf("%s is called applied", m.Name)
		}
	}
	if n := count(t, url, "select count(*) from pg_tables where schemaname = 'public'"); n != 0 {
		t.Errorf("%d tables", n)
	}
}

func TestStatusTellsAppliedFromPending(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	mustUp(t, url, only(t, 1))
	list, err := on(url, schema()).status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range list {
		if applied := !m.AppliedAt.IsZero(); applied != (i == 0) {
			t.Errorf("%s: applied = %v", m.Name, applied)
		}
	}
}

func TestO1OlderBinaryOnANewerSchema(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	const adds = "-- +goose Up\ncreate table addition (x int);\n"
	const breaks = "-- +goose Up\nupdate compatibility set oldest_binary = 90002;\n"
	newer := with(map[string]string{"90001_adds.sql": adds})
	mustUp(t, url, newer)

	var said bytes.Buffer
	old := runner{url: url, files: schema(), log: slog.New(slog.NewTextHandler(&said, nil))}
	if err := old.check(t.Context()); err != nil {
		t.Errorf("refused on a schema that only has more: %v", err)
	}
	if !strings.Contains(said.String(), "newer") {
		t.Errorf("no warning: %s", said.String())
	}
	if applied := mustUp(t, url, schema()); len(applied) != 0 {
		t.Errorf("an older binary applied %v", applied)
	}

	mustUp(t, url, with(map[string]string{"90001_adds.sql": adds, "90002_breaks.sql": breaks}))
	wantError(t, old.check(t.Context()), ErrNewer, "90002")
	_, err := old.up(t.Context())
	wantError(t, err, ErrNewer, "newer onebell")
	wantError(t, on(url, newer).check(t.Context()), ErrNewer, "90001")
}

func TestBrokenMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	_, err := on(url, with(map[string]string{"90001_broken.sql": "-- +goose Up\ncreate table half (x int);\nselect nonsense;\n"})).up(t.Context())
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != "42703" {
		t.Errorf("got %v", err)
	}
	if n := count(t, url, "select count(*) from pg_tables where tablename = 'half'"); n != 0 {
		t.Error("half a migration stands")
	}
	if err := on(url, schema()).check(t.Context()); err != nil {
		t.Errorf("the migrations before it are gone: %v", err)
	}
}

func TestUnsuitableServersAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ lie, words string }{
		"standby": {"create function pg_is_in_recovery() returns bool language sql as 'select true'", "primary"},
		"old":     {"create function current_setting(text) returns text language sql as $$select '140011'$$", "version 14"},
	} {
		url := emptyDatabase(t)
		execute(t, url, "set search_path = public, pg_catalog; "+test.lie)
		lying := on(url+"&search_path=public,pg_catalog", schema())
		t.Run(name, func(t *testing.T) {
			wantError(t, lying.check(t.Context()), ErrServer, test.words)
			_, err := lying.up(t.Context())
			wantError(t, err, ErrServer, test.words)
		})
	}
}

func TestErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2@127.0.0.1:1/x", "postgres://u:hunter2@h:port/x", "hunter2"} {
		for _, err := range []error{Check(t.Context(), url, slog.New(slog.DiscardHandler)), func() error {
			_, err := Up(t.Context(), url, slog.New(slog.DiscardHandler))
			return err
		}()} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		}
	}
}

func TestDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	mustUp(t, url, schema())
	p, err := on(url, schema()).provider()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "select count(*) from pg_tables where schemaname = 'public' and tablename not like 'goose%'"); n != 0 {
		t.Errorf("%d tables are left", n)
	}
	mustUp(t, url, schema())
}

var opening = regexp.MustCompile(`(?s)^-- \+goose Up\n(\s|--[^\n]*\n)*set local lock_timeout = '\d+s';\nset local statement_timeout = '\d+min';\n.*\n-- \+goose Down\n`)

func TestEveryMigrationBoundsItsWaits(t *testing.T) {
	names, err := fs.Glob(schema(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(schema(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !opening.Match(text) {
			t.Errorf("%s must begin with lock_timeout and statement_timeout, and have a way down", name)
		}
		if strings.Contains(strings.ToLower(string(text)), "no transaction") {
			t.Errorf("%s runs outside a transaction: a kill in its middle would leave half of it", name)
		}
	}
}
