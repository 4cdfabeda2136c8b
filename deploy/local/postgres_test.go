package local

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const patience = 5 * time.Minute // longer than a slow machine takes for anything

func start(t *testing.T, opts PostgresOptions) *Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := StartPostgres(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, p) })
	return p
}

func closeIt(t *testing.T, p *Postgres) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// reachable makes a folder that the database's account can reach, also for root.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "onebell-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// number runs statements and returns the last one's single number.
func number(t *testing.T, url string, statements ...string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.PgConn().Conn().Close() }()
	last := len(statements) - 1
	for _, sql := range statements[:last] {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var n int
	if err := conn.QueryRow(t.Context(), statements[last]).Scan(&n); err != nil {
		t.Fatalf("%s: %v", statements[last], err)
	}
	return n
}

const countRows = "select count(*) from kept"

// mustKeep writes, ends the server, and looks for the rows after a restart.
func mustKeep(t *testing.T, p *Postgres, end func(*Postgres) error) {
	t.Helper()
	url := p.URL()
	number(t, url, "drop table if exists kept", "create table kept (x int)", "insert into kept select generate_series(1, 1000)", "select 1")
	if err := end(p); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("connected to a server that is down")
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.URL() != url {
		t.Error("the restart moved the server")
	}
	if got := number(t, url, countRows); got != 1000 {
		t.Errorf("%d rows of 1000", got)
	}
}

const isDurable = "select (current_setting('fsync') = 'on' and current_setting('synchronous_commit') = 'on')::int"

func TestAnsweredCommitsSurvive(t *testing.T) {
	var said bytes.Buffer
	p := start(t, PostgresOptions{InMemory: true, Log: slog.New(slog.NewTextHandler(&said, nil))})
	for name, end := range map[string]func(*Postgres) error{
		"kill":           (*Postgres).Kill,
		"immediate stop": func(p *Postgres) error { return p.Stop(Immediate) },
		"fast stop":      func(p *Postgres) error { return p.Stop(Fast) },
	} {
		t.Run(name, func(t *testing.T) { mustKeep(t, p, end) })
	}
	if err := p.Restart(t.Context()); err != nil { // while it runs
		t.Fatal(err)
	}
	if got := number(t, p.URL(), countRows); got != 1000 {
		t.Errorf("%d rows of 1000", got)
	}
	if got := number(t, p.URL(), isDurable); got != 0 {
		t.Error("a server that need not be durable pays for it")
	}
	mustKeepItsPassword(t, p, &said)
	closeIt(t, p)
	if _, err := os.Stat(p.home.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", p.home.dir, err)
	}
}

func mustKeepItsPassword(t *testing.T, p *Postgres, said *bytes.Buffer) {
	t.Helper()
	if _, err := pgx.Connect(t.Context(), strings.Replace(p.URL(), p.password, "wrong", 1)); err == nil {
		t.Error("a wrong password was taken")
	}
	if len(p.password) < 20 || said.Len() == 0 || strings.Contains(said.String(), p.password) {
		t.Errorf("log: %s", said.String())
	}
}

func TestDurableServerSurvivesAKill(t *testing.T) {
	p := start(t, PostgresOptions{Durable: true})
	if got := number(t, p.URL(), isDurable); got != 1 {
		t.Error("it is not durable")
	}
	mustKeep(t, p, (*Postgres).Kill)
}

func TestFolderKeepsTheData(t *testing.T) {
	dir := filepath.Join(reachable(t), "pg")
	leaveHalf(t, dir)
	p := start(t, PostgresOptions{Dir: dir})
	number(t, p.URL(), "create table kept (x int)", "insert into kept values (1)", countRows)

	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another onebell") {
		t.Fatalf("a second server on the same folder: %v", err)
	}
	closeIt(t, p)
	_, err = StartPostgres(t.Context(), PostgresOptions{Dir: dir, Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("a failing start must show the server's words: %v", err)
	}
	again := start(t, PostgresOptions{Dir: dir})
	if got := number(t, again.URL(), countRows); got != 1 {
		t.Errorf("%d rows", got)
	}
}

// leaveHalf leaves what a first start does that was killed in the middle.
func leaveHalf(t *testing.T, dir string) {
	t.Helper()
	half := filepath.Join(dir, "data.new")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLeftOverFoldersOfDeadProcessesAreRemoved(t *testing.T) {
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	live, err := openHome("", true, as)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := os.MkdirTemp(tempBase(true, as), tempPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removeStale(tempBase(true, as), as) // as every start does
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead one's folder is still there: %v", err)
	}
	if _, err := os.Stat(live.dir); err != nil {
		t.Errorf("the live one's folder is gone: %v", err)
	}
	if err := live.close(); err != nil {
		t.Error(err)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	port, err := FreePort(0) // not one of those that the kernel hands out: it is looked for again in the end
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = StartPostgres(t.Context(), PostgresOptions{Port: port, InMemory: true})
	if err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("got %v", err)
	}
	if got, err := FreePort(port); err != nil || got == port {
		t.Errorf("FreePort answered %d, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := FreePort(port); err != nil || got != port {
		t.Errorf("FreePort answered %d, %v, want the usual %d", got, err, port)
	}
}
