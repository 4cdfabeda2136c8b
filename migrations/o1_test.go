package migrations

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const waitingAtGate = "select count(*) from pg_locks where locktype = 'advisory' and objid = 4711 and not granted and database = (select oid from pg_database where datname = current_database())"

// replicas runs Up as several processes would, all at once, and returns how often each version was applied, and what was
// logged at level Warn.
func replicas(t *testing.T, n int, url string, files fs.FS) (times map[int64]int, warnings string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	times = map[int64]int{}
	var said strings.Builder
	handler := slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}) // locks around its writes
	for range n {
		all.Go(func() {
			applied, err := runner{url: url, files: files, log: slog.New(handler)}.up(ctx)
			if err != nil {
				t.Errorf("a replica did not start: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, m := range applied {
				times[m.Version]++
			}
		})
	}
	all.Wait()
	return times, said.String()
}

// mustEachOnce runs five replicas; the lock must keep them apart, not the second fence behind it.
func mustEachOnce(t *testing.T, url string, files fs.FS, from int) {
	t.Helper()
	times, warnings := replicas(t, 5, url, files)
	if warnings != "" {
		t.Errorf("the replicas collided: %s", warnings)
	}
	known, err := runner{files: files}.known()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range known {
		want := 1
		if i < from {
			want = 0
		}
		if times[m.Version] != want {
			t.Errorf("%s was applied %d times, want %d", m.Name, times[m.Version], want)
		}
	}
}

func TestO1FiveReplicasOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	mustEachOnce(t, url, schema(), 0)
	if err := on(url, schema()).check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestO1FiveReplicasOnThePreviousSchema(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	mustUp(t, url, only(t, 1))
	mustEachOnce(t, url, schema(), 1)
}

// startChild starts a replica in a process of its own and returns when it stands in the middle of the slow migration.
func startChild(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+url)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	until(t, url, waitingAtGate, 1)
	return child
}

func TestO1KilledInTheMiddleTheNextStartsComplete(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	holder := connect(t, url)
	if _, err := holder.Exec(t.Context(), "select pg_advisory_lock($1)", gate); err != nil {
		t.Fatal(err)
	}
	child := startChild(t, url)
	until(t, url, "select count(*) from goose_lock where lease_expires_at > locked_at + interval '11 seconds'", 1) // it renews its lease
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // says "killed"
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	times, _ := replicas(t, 3, url, slowSchema())
	if times[90001] != 1 {
		t.Errorf("the broken migration was applied %d times afterwards", times[90001])
	}
	mustStandOnce(t, url)
}

func mustStandOnce(t *testing.T, url string) {
	t.Helper()
	for _, half := range []string{"first half", "second half"} {
		if n := count(t, url, "select count(*) from duties where owner = '"+half+"'"); n != 1 {
			t.Errorf("the %s of the migration stands there %d times", half, n)
		}
	}
	if n := count(t, url, "select count(*) from goose_db_version where version_id = 90001"); n != 1 {
		t.Errorf("the version stands there %d times", n)
	}
}

func TestO1FrozenPastItsLeaseNothingIsAppliedTwice(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	holder := connect(t, url)
	if _, err := holder.Exec(t.Context(), "select pg_advisory_lock($1)", gate); err != nil {
		t.Fatal(err)
	}
	child := startChild(t, url)
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		_, err := on(url, slowSchema()).up(ctx)
		second <- err
	}()
	until(t, url, waitingAtGate, 2) // the second replica has taken the lock over and does the same work
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the frozen replica did not start after all: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second replica did not start: %v", err)
	}
	mustStandOnce(t, url)
}

func TestO1WaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	mustUp(t, url, only(t, 1))
	execute(t, url, "update goose_lock set locked = true, locked_by = 'another', lease_expires_at = now() + interval '1 hour'")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := on(url, schema()).up(ctx); err == nil {
		t.Error("migrated although another process holds the lock")
	}
	if n := count(t, url, "select max(version_id) from goose_db_version"); n != 1 {
		t.Errorf("version %d", n)
	}
}
