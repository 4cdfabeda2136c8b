package pgstore

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onebell/onebell/dedup"
	"github.com/onebell/onebell/intents"
	"github.com/onebell/onebell/migrations/pgtest"
)

// manyRows lays out 200,000 intents of the last days: nearly all succeeded; 300 unknown and 3,000 due, spread; ten rejected ones,
// of a caller of their own, at the very beginning.
const manyRows = `
with row as (
    select n, now() - (200000 - n) * interval '1 second' as at,
           case when n <= 10 then 'silent' when n % 3 = 0 then 'shop' else 'other' end as caller,
           case when n % 2 = 0 then 'mail' else 'hooks' end as channel, 'receipt:' || n as key,
           case when n <= 10 then 'rejected' when n % 600 = 1 then 'unknown' when n % 60 = 2 then 'pending' else 'succeeded' end as state
      from generate_series(1, 200000) n
), hex as (
    select *, lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') as h,
           substr(sha256(convert_to(caller || '/' || channel || '/' || key, 'UTF8')), 1, 16) as fact
      from row
), made as (
    insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, priority, effect_key, collapse_key,
           recipient_hash, traceparent, state, generation, updated_at, owner, key_scope, provider_id)
    select (substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, fact, caller, channel, key, 0,
           'duplicate-visible', at, at, 1, 'effect', '', sha256(convert_to(key, 'UTF8')), '', state, 1, at, 'w', '', 'provider-' || n
      from hex
    returning id, fact, channel, revision, state, created_at
), known as (
    insert into keys (fact, revision, intent_id, fingerprint_version, fingerprint, occurred_at) select fact, 0, id, 1, '', created_at from made
)
insert into agenda (intent_id, channel, kind, priority, at, fact, revision, generation)
select id, channel, case state when 'pending' then 'due' else 'unknown' end, 1, created_at, fact, revision, 1 from made where state in ('pending', 'unknown')`

func openMany(t *testing.T) *Store {
	t.Helper()
	url := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), url) // without the store's limits of time
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		"alter table intents set unlogged", "alter table keys set unlogged", manyRows, "analyze",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

type plan struct {
	Node     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Plans    []plan
}

// seqScans returns the tables that a plan reads from end to end.
func (p plan) seqScans() (tables []string) {
	if p.Node == "Seq Scan" {
		tables = append(tables, p.Relation)
	}
	for _, below := range p.Plans {
		tables = append(tables, below.seqScans()...)
	}
	return tables
}

func TestReadsOfALargeTableUseItsIndexes(t *testing.T) {
	s := openMany(t)
	explain := func(sql string, args ...any) (p plan) {
		t.Helper()
		err := s.do(t.Context(), "explain", func(ctx context.Context, c *pgx.Conn) error {
			var text []byte
			if err := c.QueryRow(ctx, "explain (format json) "+sql, args...).Scan(&text); err != nil {
				return err
			}
			var plans []struct{ Plan plan }
			err := json.Unmarshal(text, &plans)
			p = plans[0].Plan
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	fact := dedup.Identity{Caller: "shop", Channel: "mail", Key: "receipt:6"}.Fact()
	newest := filterArgs(intents.Filter{}, uuid.Max, uuid.Nil, 51)
	rare := filterArgs(intents.Filter{State: intents.Rejected, Caller: "shop"}, uuid.Max, idAt(time.Now().Add(-time.Hour)), 51)
	for name, p := range map[string]plan{
		"newest":       explain(readWalkSQL, newest...),
		"one step":     explain(readWalkSQL, rare...),
		"its floor":    explain(readWalkFloorSQL, uuid.Max, uuid.Nil, walkFirst),
		"key":          explain(readFactsSQL, append(newest, [][]byte{fact[:]})...),
		"unknown":      explain(readOpenSQL, append(filterArgs(intents.Filter{State: intents.UnknownState}, uuid.Max, uuid.Nil, 51), "unknown")...),
		"pending":      explain(readOpenSQL, append(filterArgs(intents.Filter{State: intents.Pending}, uuid.Max, uuid.Nil, 51), "due")...),
		"sending":      explain(readOnWireSQL, filterArgs(intents.Filter{State: intents.Sending}, uuid.Max, uuid.Nil, 51)...),
		"pairs":        explain(readPairsSQL, 1000),
		"by id":        explain(readIntentsSQL, []uuid.UUID{uuid.Max}),
		"a page by id": explain(readIntentsSQL, slices.Repeat([]uuid.UUID{uuid.Max}, 50)),
		"attempts":     explain(readAttemptsSQL, uuid.Max),
	} {
		for _, table := range p.seqScans() {
			if table == "intents" || table == "keys" {
				t.Errorf("%s: reads %s from end to end", name, table)
			}
		}
	}
	t.Run("a rare state is found page by page", func(t *testing.T) { findRare(t, s, intents.Filter{State: intents.Rejected, Limit: 50}, 10) })
	t.Run("a key of a silent caller is found", func(t *testing.T) { findRare(t, s, intents.Filter{Key: "receipt:7", Limit: 50}, 1) })
	t.Run("nothing is found in bounded pages", func(t *testing.T) {
		findRare(t, s, intents.Filter{ProviderID: "provider-x", Limit: 50}, 0)
	})
}

// findRare follows the pages to their end. Each looks at walkFirst…walkLast rows, so 200,000 rows take one page or two.
func findRare(t *testing.T, s *Store, f intents.Filter, want int) {
	found, pages := 0, 0
	for more := true; more; pages++ {
		page, err := s.ListIntents(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.Intents)
		f.Before, more = page.Next, page.Next != uuid.Nil
	}
	if found != want || pages > 2 {
		t.Errorf("%d found on %d pages, want %d on at most 2", found, pages, want)
	}
}
