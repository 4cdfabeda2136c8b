package pgstore_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
)

// A purge that reads its way through a table would be slower with every row that it must keep. Nobody analyzed these tables, either.
func TestPurgesReadByIndex(t *testing.T) {
	b := filled(t)
	b.exec(`insert into keys_older select fact, revision + 1, id, 1, fact, occurred_at from intents`)
	b.exec(`insert into changes (intent_id, generation, from_state, to_state, at, cause, actor, detail) select id, 1, '', '', now(), '', '', '' from intents`)
	b.exec(`insert into evidence (intent_id, at, source, generation, result, code, message, provider_id, settled) select id, now(), '', 1, '', '', '', '', false from intents`)
	b.exec(`insert into refusals select id, now(), 'stale', '', '', '{}', '', '', '', 0, null, '', 0, '' from intents`)
	ended, ids, facts := intents.TerminalStates(), make([]uuid.UUID, 500), make([][]byte, 500)
	for i := range ids {
		ids[i] = uuid.New()
		facts[i] = ids[i][:]
	}
	whole := regexp.MustCompile(`Seq Scan on (intents|keys|keys_older|contents|attempts|changes|evidence|refusals)\b`)
	for name, args := range map[string][]any{
		"purge_keys_page":     {ended, time.Hour, time.Now(), facts[0], 500},
		"purge_keys_lock":     {facts},
		"purge_keys":          {facts, ended, time.Hour},
		"purge_contents_page": {ended, time.Hour, ids[0], 500},
		"purge_contents":      {ids, ended, time.Hour},
		"purge_intents_page":  {ended, time.Hour, ids[0], 500},
		"purge_intents":       {ids, ended, time.Hour},
		"purge_refusals_page": {time.Hour, time.Now(), ids[0], 500},
		"purge_refusals":      {ids, time.Hour},
	} {
		plan := b.explainPurge(name, args...)
		if whole.MatchString(plan) {
			t.Errorf("%s reads a whole table:\n%s", name, plan)
		}
		for _, node := range regexp.MustCompile(`(?:Index (?:Only )?Scan using|Bitmap Index Scan on) [^\n]*\n\s*([^\n]*)`).FindAllStringSubmatch(plan, -1) {
			if !strings.HasPrefix(node[1], "Index Cond") {
				t.Errorf("%s reads a whole index:\n%s", name, plan)
			}
		}
	}
	// The page of keys begins in the index behind the mark, also among facts of one time.
	plan := b.explainPurge("purge_keys_page", ended, time.Hour, time.Now(), facts[0], 500)
	if !regexp.MustCompile(`Index (Only )?Scan using keys_by_time on keys[^\n]*\n\s*Index Cond: \([^\n]*ROW\(occurred_at, fact\) > ROW\(`).MatchString(plan) {
		t.Errorf("the plan:\n%s", plan)
	}
}

// explainPurge returns the plan that a statement gets inside a purge's transaction; long lists of values are cut.
func (b *bench) explainPurge(name string, args ...any) string {
	b.t.Helper()
	read := func(name string) string {
		text, err := statements.ReadFile("queries/" + name + ".sql")
		if err != nil {
			b.t.Fatal(err)
		}
		return string(text)
	}
	tx, err := b.db.Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	before := []string{read("session")}
	if !strings.HasSuffix(name, "_page") {
		before = append(before, read("purge_plan"))
	}
	for _, sql := range before {
		if _, err := tx.Exec(b.ctx, sql); err != nil {
			b.t.Fatal(err)
		}
	}
	rows, _ := tx.Query(b.ctx, "explain\n"+read(name), append([]any{pgx.QueryExecModeDescribeExec}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return regexp.MustCompile(`'\{[^}]{80,}\}'`).ReplaceAllString(strings.Join(lines, "\n"), "'{…}'")
}
