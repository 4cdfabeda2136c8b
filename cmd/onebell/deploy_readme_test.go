package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/dispatch/wire"
)

// readmeRows is what the README's tables of variables must say, in the code's words.
func readmeRows(t *testing.T) []string {
	t.Helper()
	service, perType, err := envReference()
	if err != nil {
		t.Fatal(err)
	}
	row := func(v variable, meaning string) string {
		def := "—"
		if v.Default != "" {
			def = "`" + v.Default + "`"
		}
		return fmt.Sprintf("| `%s` | %s | %s |", v.Name, def, meaning)
	}
	var rows []string
	for _, v := range service {
		rows = append(rows, row(v, v.Meaning))
	}
	every, err := describe(channelPrefix+"<NAME>", &struct{ Limits }{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range every {
		rows = append(rows, row(v, "every type: "+v.Meaning))
	}
	for _, typ := range typeNames() {
		for _, v := range perType[typ] {
			if !slices.Contains(names(every), v.Name) {
				rows = append(rows, row(v, typ+": "+v.Meaning))
			}
		}
	}
	return rows
}

func readme(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestReadmeTableIsTheCode(t *testing.T) {
	want := readmeRows(t)
	var got []string
	for line := range strings.Lines(readme(t)) {
		if strings.HasPrefix(line, "| `ONEBELL_") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("README.md has a row that the code does not know\n%s", row)
		}
	}
}

// The limits that the README gives are the code's.
func TestReadmeLimitsAreTheCode(t *testing.T) {
	mail, hook := &smtpEnv{Addr: "mail.example.org:587", From: "a@example.org", TLS: "none", Timeout: span(time.Minute)}, &webhookEnv{Dedup: "none", Timeout: span(time.Minute)}
	content := map[string]string{}
	push := &fcmEnv{CredentialsFile: filePath(firebaseKey(t, "https://oauth2.googleapis.com/token")), Timeout: span(time.Minute)}
	for name, env := range map[string]channelEnv{"smtp": mail, "webhook": hook, "fcm": push} {
		ch, err := env.build()
		if err != nil {
			t.Fatal(err)
		}
		content[name] = fmt.Sprint(ch.Contract().MaxContentBytes>>10, " KiB")
	}
	text := strings.NewReplacer(",", "", "1 MiB", "1024 KiB").Replace(readme(t))
	for _, row := range []string{
		fmt.Sprintf("| a request as a whole | %d bytes |", wire.MaxPayload), fmt.Sprintf("| `key` | %d bytes |", dedup.MaxKey),
		fmt.Sprintf("| `recipient` | %d bytes |", wire.MaxRecipient), fmt.Sprintf("| `collapse_id` | %d bytes |", wire.MaxCollapseID),
		fmt.Sprintf("| `labels` | %d; a name has %d bytes a value %d |", wire.MaxLabels, wire.MaxLabelName, wire.MaxLabelValue),
		"| `content` of `smtp` | " + content["smtp"], "| `content` of `webhook` | " + content["webhook"], "| `content` of `fcm` | " + content["fcm"],
	} {
		if !strings.Contains(text, "\n"+row) {
			t.Errorf("README.md lacks the limit %s", row)
		}
	}
}

// Commands and flags that the documents show exist.
func TestDocumentsShowCommandsThatExist(t *testing.T) {
	root := newRoot(os.Stderr)
	for _, name := range []string{"../../README.md", "../../deploy/RUNBOOK.md", "../../deploy/onebell.service", "../../deploy/compose.yaml"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "\\\n", " ")
		for _, m := range regexp.MustCompile(`(?:cmd/onebell|\bonebell) ([a-z]+)((?: +[^\n|`+"`"+`]*)?)`).FindAllStringSubmatch(text, -1) {
			cmd, _, err := root.Find([]string{m[1]})
			if err != nil || cmd == root {
				continue // prose about onebell
			}
			if sub, _, err := cmd.Find(strings.Fields(m[2])); err == nil {
				cmd = sub
			}
			for _, flag := range regexp.MustCompile(`(?:^| )--([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
				if cmd.Flags().Lookup(flag[1]) == nil && flag[1] != "help" {
					t.Errorf("%s shows `onebell %s --%s`, which has no such flag", name, m[1], flag[1])
				}
			}
		}
	}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Example == "" {
			t.Errorf("onebell %s has no example", cmd.Name())
		}
	}
}

// Metrics that the runbook names exist, and it names all.
func TestRunbookNamesMetricsThatExist(t *testing.T) {
	runbook, err := os.ReadFile("../../deploy/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for _, room := range []string{"dispatch", "retention"} {
		metrics, err := os.ReadFile("../../" + room + "/metrics.go")
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, metrics...)
	}
	found := regexp.MustCompile(`\bonebell_([a-z_]+)`).FindAllSubmatch(runbook, -1)
	if len(found) < 4 {
		t.Fatalf("only %d metrics found", len(found))
	}
	for _, m := range found {
		if !strings.Contains(string(code), `"`+string(m[1])+`"`) {
			t.Errorf("the runbook names onebell_%s, which neither dispatch nor retention has", m[1])
		}
	}
	all := regexp.MustCompile(`(?:counters?|gauges?|histograms|newAges|Name:) ?\(?"([a-z_]+)"`).FindAllSubmatch(code, -1)
	if len(all) < 20 {
		t.Fatalf("only %d metrics found in the code", len(all))
	}
	for _, m := range all {
		if !strings.Contains(string(runbook), "`onebell_"+string(m[1])+"`") {
			t.Errorf("the runbook does not name onebell_%s", m[1])
		}
	}
}

// fenced returns the README's one code block that begins so.
func fenced(t *testing.T, begin string) string {
	t.Helper()
	_, block, ok := strings.Cut(readme(t), begin)
	block, _, end := strings.Cut(block, "\n```")
	if !ok || !end {
		t.Fatalf("README.md has no code block that begins with %q", begin)
	}
	return strings.TrimPrefix(strings.TrimPrefix(begin, "```go\n"), "```\n") + block + "\n"
}

// A newcomer's two ways, as the README has them, against a running service.
func TestReadmeProgramsPublish(t *testing.T) {
	h := hostForTest(t, oneHostOptions{})
	_, port, err := net.SplitHostPort(h.stack.broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("127.0.0.1:4222", "127.0.0.1:"+port, "127.0.0.1/4222", "127.0.0.1/"+port)

	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, []byte(here.Replace(fenced(t, "```go\npackage main"))), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OCCURRED_AT", time.Now().UTC().Format(time.RFC3339))
	for _, verdict := range []string{"accepted ", "duplicate "} {
		command := exec.Command("go", "run", program, os.Getenv("OCCURRED_AT"))
		command.Dir = "../.."
		if out, err := command.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), verdict) {
			t.Errorf("the Go program: %v: %s; want %s", err, out, verdict)
		}
	}
	// What listens for two seconds listens here until the verdict is there, which can take longer on a busy machine.
	text := here.Replace(fenced(t, "```\npayload="))
	patient := strings.Replace(text, "timeout 2 cat", "timeout 200 grep --max-count 1 verdict", 1)
	if out, err := exec.Command("bash", "-c", patient).CombinedOutput(); err != nil || patient == text || !strings.Contains(string(out), `{"verdict":"accepted","intent":"`) {
		t.Errorf("the shell: %v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if mails, err := h.inbox.Wait(ctx, 2); err != nil || mails[0].Subject != "Your receipt" || mails[1].Subject != "Your receipt" {
		t.Errorf("the mails: %v %v", mails, err)
	}
}
