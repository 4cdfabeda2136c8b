package pgstore_test

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

//go:embed queries/*.sql
var statements embed.FS

// eachStatement calls f with every statement, comments stripped.
func eachStatement(t *testing.T, f func(t *testing.T, name, text, sql string)) {
	files, err := fs.Glob(statements, "queries/*.sql")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d statements, %v", len(files), err)
	}
	for _, file := range files {
		b, err := statements.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "queries/"), ".sql")
		var sql []string
		for line := range strings.Lines(string(b)) {
			if line, _, _ = strings.Cut(line, "--"); strings.TrimSpace(line) != "" {
				sql = append(sql, strings.TrimRight(line, "\n"))
			}
		}
		t.Run(name, func(t *testing.T) { f(t, name, string(b), strings.Join(sql, "\n")) })
	}
}

func TestEveryStatementPreparesOnTheMigratedSchema(t *testing.T) {
	b := newBench(t)
	conn, err := b.db.Acquire(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	eachStatement(t, func(t *testing.T, name, text, sql string) {
		if _, err := conn.Conn().Prepare(b.ctx, name, text); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(text, "-- "+name+": ") {
			t.Errorf("the file must begin with a comment, %q and what the statement does", "-- "+name+": ")
		}
		if regexp.MustCompile(`(select|returning)\s+(\w+\.)?\*`).MatchString(strings.ReplaceAll(sql, "a.*,", "")) && name != "admit" && name != "note_changes" {
			t.Error("columns must be named")
		}
	})
}

// updates finds each "update intents" with all that belongs to it: up to the CTE's closing parenthesis, or the end.
var updates = regexp.MustCompile(`(?s)update intents\b.*?(\n\)|$)`)

// fences says what is wrong with an update of intents; "" if nothing.
func fences(update string) string {
	_, where, found := strings.Cut(update, "\n where ")
	if !found {
		_, where, found = strings.Cut(update, "\n     where ")
	}
	switch {
	case !found:
		return "has no where"
	case !regexp.MustCompile(`\bid = `).MatchString(where):
		return "does not name the id"
	case !regexp.MustCompile(`\bgeneration = `).MatchString(where):
		return "does not name the generation"
	case !regexp.MustCompile(`\bstate = `).MatchString(where):
		return "does not name the state"
	}
	return ""
}

func TestEveryWriteAfterAdmissionIsFenced(t *testing.T) {
	seen := 0
	eachStatement(t, func(t *testing.T, name, text, sql string) {
		for _, update := range updates.FindAllString(sql, -1) {
			seen++
			if fault := fences(update); fault != "" {
				t.Errorf("this update of intents %s:\n%s", fault, update)
			}
		}
		if deletes := regexp.MustCompile(`delete from (intents|keys)\b`).MatchString(sql); deletes && !strings.HasPrefix(name, "purge_") {
			t.Error("these are deleted by retention alone")
		} else if deletes && !strings.Contains(sql, "i.state = any($2::text[])") && !strings.Contains(sql, "i.state <> all($2::text[])") {
			t.Error("only what is terminal may be forgotten")
		}
	})
	if seen < 8 {
		t.Errorf("only %d updates were looked at", seen)
	}
	for _, bad := range []string{
		"update intents i set state = 'x'\n where i.id = $1 and i.state = 'sending'",
		"update intents i set state = 'x'\n where i.id = $1 and i.generation = $2",
		"update intents i set generation = i.generation + 1, state = 'x'",
	} {
		if fences(bad) == "" {
			t.Errorf("this would have passed:\n%s", bad)
		}
	}
}
