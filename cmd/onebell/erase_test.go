package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// everything is every value of every table, as text; bytes as text, too.
func (w *town) everything() string {
	w.t.Helper()
	var all strings.Builder
	for _, table := range query[string](w, `select tablename from pg_tables where schemaname = current_schema() and tablename not like 'goose%'`) {
		for _, row := range query[string](w, `select t::text from `+table+` t`) {
			all.WriteString(row + "\n")
		}
	}
	for _, rendered := range query[[]byte](w, `select rendered from contents`) {
		all.Write(rendered)
	}
	return all.String()
}

// A person is forgotten on a running service: in the database, and without a word of them in what the command prints and the service logs.
func TestErasedPersonIsNowhere(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	d := w.serve()
	const given, stored = "Zoe.Canary@Example.ORG", "Zoe.Canary@example.org"
	sent, waiting, other := w.request("mail", "sent"), w.request("mail", "waiting"), w.request("mail", "other")
	sent.Recipient, waiting.Recipient = given, given
	sent.Content = []byte(`{"subject":"For Zoe.Canary","text":"Dear Zoe.Canary@example.org"}`)
	sent.Labels = map[string]string{"customer": "Zoe.Canary"}
	waiting.NotBefore = time.Now().Add(24 * time.Hour)
	w.tell("mail", sent)
	w.tell("mail", waiting)
	w.tell("mail", other)
	w.becomes("mail", "sent", intents.Succeeded)
	w.becomes("mail", "other", intents.Succeeded)
	w.becomes("mail", "waiting", intents.Pending)
	if !strings.Contains(w.everything(), stored) {
		t.Fatal("the search for the canary finds nothing")
	}

	if _, stderr, status := w.command("", "erase --recipient "+given+" --reason asked-by-zoe.canary@EXAMPLE.org"); status != exitUsage || strings.Contains(stderr, "anary@") {
		t.Errorf("a reason that names the person: %d, %s", status, stderr)
	}
	dry, _, _ := w.command(given+"\n", "erase --recipient - --reason request-4711 --dry-run --json")
	first, why, status := w.command(given+"\n", "erase --recipient - --reason request-4711 --json")
	if status != exitFailed || !strings.Contains(why, "--cancel-open") {
		t.Errorf("with one left it ended with %d: %s", status, why)
	}
	second, said, status := w.command(given, "erase --recipient - --reason request-4711 --cancel-open --actor ada")
	if status != exitOK || !strings.Contains(second, "found 2") || !strings.Contains(second, "forgot 1") || !strings.Contains(second, "cancelled") {
		t.Errorf("it ended with %d: %s %s", status, second, said)
	}
	var report erasedReport
	if err := json.Unmarshal([]byte(first), &report); err != nil || report.Found != 2 || report.Erased != 1 || len(report.Left) != 1 || len(report.Foreign) != 0 {
		t.Errorf("%s: %v", first, err)
	}
	for name, text := range map[string]string{
		"the database": w.everything(), "the dry run": dry, "the first run": first + why, "the second run": second + said, "the log": d.log.String(),
	} {
		if at := strings.Index(strings.ToLower(text), "canary"); at >= 0 {
			t.Errorf("%s still names the person: …%s", name, text[max(0, at-80):min(len(text), at+40)])
		}
	}
	if s := w.becomes("mail", "waiting", intents.Cancelled); s.Code != "erased" {
		t.Errorf("it was cancelled for %q", s.Code)
	}
	w.tell("mail", sent) // known by its key, though its content is gone
	w.publish("mail", "last")
	w.becomes("mail", "last", intents.Succeeded)
	if n := len(w.mail.all()); n != 3 {
		t.Errorf("%d mails, want the two before and the last", n)
	}
	if n := w.count(`select count(*) from audit where what = 'erase' and place <> '' and cardinality(targets) = 2`); n != 2 {
		t.Errorf("%d runs in the audit, want 2", n)
	}
}

// Requests of a channel that is not configured here are found as far as they name the recipient as the command does, and that is said.
func TestErasureSaysWhichChannelsItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.serve()
	w.publish("plain", "1")
	w.becomes("plain", "1", intents.Succeeded)
	all := w.channels
	w.channels = []string{"mail"}
	stdout, stderr, status := w.command("nobody@example.org", "erase --recipient - --reason request-1")
	if w.channels = all; status != exitOK || !strings.Contains(stdout, "not configured here: plain;") {
		t.Errorf("%d: %s %s", status, stdout, stderr)
	}
}

// What the audit has stays, whoever asks.
func TestAuditIsAppendOnly(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	if stdout, stderr, status := w.command("nobody@example.org", "erase --recipient - --reason request-1"); status != exitOK || !strings.Contains(stdout, "found 0") {
		t.Fatalf("%d: %s %s", status, stdout, stderr)
	}
	db, err := pgx.Connect(t.Context(), w.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	for _, sql := range []string{`update audit set reason = ''`, `delete from audit`, `truncate audit`} {
		if _, err := db.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if n := w.count(`select count(*) from audit`); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
}
