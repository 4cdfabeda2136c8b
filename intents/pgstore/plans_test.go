package pgstore_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/intents/intenttest"
)

// filled is a bench whose tables hold many settled intents, as after a while of work.
func filled(t *testing.T) *bench {
	b := newBench(t)
	b.exec(`insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, priority, effect_key, collapse_key,
			recipient_hash, traceparent, state, generation, updated_at, owner, key_scope)
		select gen_random_uuid(), sha256(n::text::bytea), 'shop', 'mail', 'f:' || n, 0, 'keyed', now(), now(), 1, 'e', 'c', '', '', 'succeeded', 1, now(), '', ''
		from generate_series(1, 40000) n`)
	b.exec(`insert into keys select fact, revision, id, 1, fact, occurred_at from intents`)
	b.exec(`insert into attempts select id, 1, 'x', now(), now(), 'accepted', 'reply', '', '', '', 'succeeded' from intents`)
	b.exec(`insert into contents select id, 'r', 'c', '', '' from intents`)
	return b
}

// explain returns the plan that a statement gets on a connection of the store's kind.
func (b *bench) explain(name string, args ...any) string {
	b.t.Helper()
	read := func(name string) string {
		text, err := statements.ReadFile("queries/" + name + ".sql")
		if err != nil {
			b.t.Fatal(err)
		}
		return string(text)
	}
	conn, err := pgx.Connect(b.ctx, b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close(b.ctx)
	if _, err := conn.Exec(b.ctx, read("session")); err != nil {
		b.t.Fatal(err)
	}
	rows, _ := conn.Query(b.ctx, "explain\n"+read(name), append([]any{pgx.QueryExecModeDescribeExec}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var big = regexp.MustCompile(`Seq Scan on (intents|keys|contents|attempts)\b`)

// Nobody analyzed these tables: that is how they are when they grow fast.
func TestBigTablesAreReadByIndex(t *testing.T) {
	b := filled(t)
	ids, generations, owners, texts := make([]uuid.UUID, 500), make([]int32, 500), make([]string, 500), make([]string, 500)
	flags, spans, facts, versions := make([]bool, 500), make([]time.Duration, 500), make([][]byte, 500), make([]int16, 500)
	for i := range ids {
		ids[i], facts[i] = uuid.New(), []byte(fmt.Sprint(i))
	}
	for name, args := range map[string][]any{
		"settle":           {ids, generations, owners, texts, spans, flags, flags, flags, texts, texts, texts, flags, flags, texts, texts, texts, texts, texts, spans, spans},
		"settled_before":   {ids, generations, owners, flags},
		"known_facts":      {facts, generations, versions, facts},
		"claim":            {"mail", "scope", me, time.Minute, 50, uuid.New(), time.Hour},
		"take_over":        {[]string{"mail"}, me, time.Minute, 100},
		"renew_admitted":   {ids, me, time.Minute, uuid.New()},
		"finish_batches":   {ids[:2]},
		"stale_batches":    {},
		"sweep":            {100},
		"unknowns":         {"mail", 20},
		"witness_known":    {ids[0], 1, me, "look-up", "accepted"},
		"find_by_identity": {facts[0], 0},
		"claims_held":      {ids[:50], me},
		"cancel":           {facts[0], 0},
		"older_lock":       {facts[0]},
		"supersede":        {ids[0], ids[:3]},
	} {
		if plan := b.explain(name, args...); big.MatchString(plan) {
			t.Errorf("%s reads a whole table:\n%s", name, plan)
		}
	}
}

// Settling on the first attempt touches no index: every such update is HOT.
func TestSettlingIsHot(t *testing.T) {
	b := newBench(t)
	for round := range 4 {
		var as []intents.Admission
		for i := range 250 {
			as = append(as, ask(fmt.Sprintf("h:%d-%d", round, i), 0, now))
		}
		batch := batchOf(as...)
		var ss []intents.Settlement
		for _, v := range b.admitBatch(batch) {
			ss = append(ss, succeeded(*v.Claim, me))
		}
		if _, err := b.Settle(b.ctx, ss, []uuid.UUID{batch.Batch}); err != nil {
			t.Fatal(err)
		}
	}
	b.Close() // its sessions report what they did when they end
	sql := `select n_tup_hot_upd from pg_stat_user_tables, pg_sleep(0.02) where relname = 'intents' and n_tup_upd >= 1000`
	deadline := time.Now().Add(patience)
	for one[int](b, "select count(*) from ("+sql+") x") == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the server does not report 1000 updates")
		}
	}
	if hot := one[int](b, sql); hot < 990 {
		t.Errorf("%d of 1000 updates were HOT", hot)
	}
}

// A long backlog that is not due must not make claiming slow: the index is entered at what is due, for each priority.
func TestClaimEntersTheIndexAtWhatIsDue(t *testing.T) {
	b := newBench(t)
	b.exec(`insert into agenda select gen_random_uuid(), 'mail', 'due', 1, now() + interval '1 day', null, '', 0, 0, null from generate_series(1, 20000)`)
	b.admit(ask("c:1", 0, intenttest.Urgency(intents.Low)))
	plan := b.explain("claim", "mail", "scope", me, time.Minute, 50, uuid.New(), time.Hour)
	if !regexp.MustCompile(`Index Scan using agenda_by_channel on agenda a\w*\s.*\n\s*Index Cond: \(\(channel = .*\) AND \(kind = 'due'::text\) AND \(priority = .*\) AND \(at <= now\(\)\)\)`).MatchString(plan) {
		t.Errorf("the plan:\n%s", plan)
	}
}
