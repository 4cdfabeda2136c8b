package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dispatch/natstest"
	"github.com/onebell/onebell/migrations/pgtest"
)

// quietFile is where a command's log goes in tests.
func quietFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// onebell runs one command line in this process.
func onebell(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	log := quietFile(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience) // what should have refused to start is told to stop
	defer cancel()
	status = run(ctx, args, &out, log)
	said, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return status, out.String(), string(said)
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// eventuallyReady waits until the process says that it may be given work: its consumer is set up a moment after its start.
func eventuallyReady(t *testing.T, admin string) {
	t.Helper()
	eventually(t, "it is ready", func() bool {
		status, _ := fetch(t, admin+"/readyz")
		return status == http.StatusOK
	})
}

func TestServeWantsTheSchemaUpToDate(t *testing.T) {
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	setEnv(t, serveEnv("ONEBELL_DATABASE_URL", url, "ONEBELL_NATS_URL", natstest.Start(t).URL(), "ONEBELL_ADMIN_ADDR", "127.0.0.1:0"))

	// As a database that the next version's binary meets: everything but the newest migration.
	if _, err := conn.Exec(t.Context(), "delete from goose_db_version where version_id = (select max(version_id) from goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := onebell(t, "serve"); status != exitFailed || !strings.Contains(stderr, "older than this onebell; run: onebell migrate") {
		t.Fatalf("serve on an old schema: status %d: %s", status, stderr)
	}
	if _, err := conn.Exec(t.Context(), "drop schema public cascade; create schema public"); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := onebell(t, "serve"); status != exitFailed || !strings.Contains(stderr, "run: onebell migrate") {
		t.Fatalf("serve on an empty database: status %d: %s", status, stderr)
	}
	if status, _, stderr := onebell(t, "doctor"); status != exitFailed || !strings.Contains(stderr, "problem(s)") {
		t.Errorf("doctor on an empty database: status %d: %s", status, stderr)
	}
	if status, out, stderr := onebell(t, "migrate", "--status"); status != exitOK || !strings.Contains(out, "pending; run `onebell migrate`") {
		t.Errorf("status of an empty database: %d: %s %s", status, out, stderr)
	}
	if status, out, stderr := onebell(t, "migrate"); status != exitOK || !strings.Contains(out, "applied") {
		t.Fatalf("migrate: %d: %s %s", status, out, stderr)
	}
	if status, out, _ := onebell(t, "migrate"); status != exitOK || out != "the schema is up to date\n" {
		t.Errorf("migrate again: %d: %s", status, out)
	}
	c, err := loadConfig(serveNeeds)
	if err != nil {
		t.Fatal(err)
	}
	app, err := newApp(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatalf("after the migration: %v", err)
	}
	eventuallyReady(t, "http://"+app.Addr())
	for path, want := range map[string]string{"/healthz": "", "/readyz": "", "/metrics": "onebell_", "/openapi.json": `"3.1.0"`, "/v1/channels": `"mail"`} {
		if status, body := fetch(t, "http://"+app.Addr()+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
	}
	for range 2 {
		if err := app.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if _, err := http.Get("http://" + app.Addr() + "/healthz"); err == nil {
		t.Error("the admin API still listens after Stop")
	}
}

func TestDemoHoldsEveryPromise(t *testing.T) {
	setEnv(t, map[string]string{"ONEBELL_DATABASE_URL": pgtest.New(t), "ONEBELL_CHANNEL_MAIL_CONCURRENCY": "4"})
	status, out, stderr := onebell(t, "demo", "--json")
	if status != exitOK {
		t.Fatalf("status %d: %s\n%s", status, stderr, out)
	}
	var got demoResult
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Promises) != 12 || len(got.Mails) != 3 || len(got.Calls) != 2 || len(got.Intents) != 5 {
		t.Errorf("%d promises, %d mails, %d calls, %d intents", len(got.Promises), len(got.Mails), len(got.Calls), len(got.Intents))
	}
	for _, p := range got.Promises {
		if !p.Held {
			t.Errorf("broken, with status 0: %s (%s)", p.Text, p.Seen)
		}
	}
}

func TestDemoEndsBadlyWhenAPromiseIsBroken(t *testing.T) {
	var out bytes.Buffer
	s := newStory("test", &out, false)
	s.promise("one", true, "1")
	s.promise("two", false, "3 mails")
	if err := s.end(&out); err == nil || !strings.Contains(err.Error(), "1 of 2 promises were broken") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "BROKEN two (3 mails)") {
		t.Errorf("the broken promise is not shown:\n%s", out.String())
	}
}

func TestDevStaysPrintsAddressesAndKeepsItsData(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	setEnv(t, map[string]string{"ONEBELL_DATABASE_URL": pgtest.New(t)})
	var secret string
	for round := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		log := quietFile(t)
		done := make(chan int, 1)
		go func() {
			done <- run(ctx, []string{"dev", "--data", data}, w, log)
			_ = w.Close()
		}()
		addr := map[string]string{}
		buf := make([]byte, 8192)
		n, err := r.Read(buf) // it prints the addresses at once, when everything is up
		if err != nil {
			t.Fatalf("nothing was printed: %v", err)
		}
		go func() { _, _ = io.Copy(io.Discard, r) }()
		for line := range strings.Lines(string(buf[:n])) {
			for _, name := range []string{"admin API", "mail inbox", "webhook receiver"} {
				if rest, ok := strings.CutPrefix(line, name); ok {
					addr[name] = strings.Fields(rest)[0]
				}
			}
		}
		if len(addr) != 3 || !strings.Contains(string(buf[:n]), "--occurred-at 2") {
			t.Fatalf("addresses or example are missing:\n%s", buf[:n])
		}
		eventuallyReady(t, addr["admin API"])
		for name, path := range map[string]string{"admin API": "/healthz", "mail inbox": "", "webhook receiver": ""} {
			eventually(t, name+" answers as one that is ready", func() bool {
				status, _ := fetch(t, addr[name]+path)
				return status == http.StatusOK
			})
		}
		kept, err := os.ReadFile(filepath.Join(data, "secret"))
		if err != nil {
			t.Fatal(err)
		}
		if round == 1 && string(kept) != secret {
			t.Error("the second run has another secret: keys of the first are not known again")
		}
		secret = string(kept)
		cancel()
		select {
		case status := <-done:
			if status != exitOK {
				t.Errorf("status %d after being told to stop", status)
			}
		case <-time.After(patience):
			t.Fatal("it did not stop")
		}
	}
}

func TestBenchIntakePrintsBothFiguresAndItsConditions(t *testing.T) {
	setEnv(t, map[string]string{"ONEBELL_DATABASE_URL": pgtest.New(t)})
	status, out, stderr := onebell(t, "bench", "intake", "--n", "300", "--batch", "70", "--durable=false", "--json")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got benchResult
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.N != 300 || got.Service <= 0 || got.Database <= 0 || got.Share != got.Service/got.Database {
		t.Errorf("figures: %+v", got)
	}
	if c := got.Conditions; c.Cores < 1 || c.PostgreSQL == "" || c.Fsync == "" || c.SynchronousCommit == "" || c.Batch != 70 || c.BrokerSync != "default" || c.PayloadBytes < 50 {
		t.Errorf("conditions: %+v", c)
	}
}
