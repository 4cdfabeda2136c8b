package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// threePages is three times what a takeover takes at once.
const threePages = 3 * 500

// Leases that ran out and that nobody here may take over, three pages of each kind, hide none behind them that can be taken over: neither
// those of a channel that this process does not know, nor those that somebody holds.
func TestUntouchableLeasesHideNone(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, enlist := range []func(*scene, string, int){enlistInAgenda, enlistInBatch} {
		enlist(s, "gone", threePages)
		enlist(s, "mail", threePages)
	}
	holder, err := pgx.Connect(t.Context(), s.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close(context.Background()) })
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from intents where channel = 'mail' for update`); err != nil {
		t.Fatal(err)
	}
	enlistInAgenda(s, "plain", 1) // the youngest of all
	enlistInBatch(s, "keyed", 1)
	s.holds()

	s.serve()
	eventually(t, "both that can be taken over are", func() bool {
		return s.number(`select count(*) from intents where channel in ('plain', 'keyed') and takeovers = 1`) == 2
	})
	if n := s.number(`select count(*) from intents where channel in ('gone', 'mail') and state = 'sending' and takeovers = 0`); n != 4*threePages {
		t.Errorf("%d leases are as they were, want %d", n, 4*threePages)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "those that were held are taken over, too", func() bool {
		return s.number(`select count(*) from intents where channel = 'mail' and state = 'unknown' and takeovers = 1`) == 2*threePages
	})
	if n := s.number(`select count(*) from intents where channel = 'gone' and state = 'sending' and takeovers = 0`); n != 2*threePages {
		t.Errorf("%d leases of an unknown channel are as they were, want %d", n, 2*threePages)
	}
	s.holds()
}

// strewn makes n intents of a channel whose lease ran out, the later the younger, with the rest of the statement that enlists them.
const strewn = `with gone as materialized (
	select gen_random_uuid() as id, uuid_send(gen_random_uuid()) as fact, now() - interval '1 h' + interval '100 ms' * ((select count(*) from intents) + n) as over
		from generate_series(1, $2) as n
), made as (
	insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, priority, effect_key, collapse_key,
		recipient_hash, traceparent, state, generation, updated_at, owner, lease_until, claimed_at, first_used_at, key_scope)
	select id, fact, 'shop', $1, 'order:' || id, 0, 'duplicate-visible', now(), now(), 1, id::text, id::text, '', '', 'sending', 1, now(),
		'dead', over, now(), now(), '' from gone
), known as (
	insert into keys select fact, 0, id, 1, '', now() from gone
) `

func enlistInAgenda(s *scene, channel string, n int) {
	s.t.Helper()
	s.exec(strewn+`insert into agenda (intent_id, channel, kind, priority, at, fact, revision, generation, claim_token)
		select id, $1, 'leased', 1, over, fact, 0, 1, gen_random_uuid() from gone`, channel, n)
}

func enlistInBatch(s *scene, channel string, n int) {
	s.t.Helper()
	s.exec(strewn+`insert into claim_batches select gen_random_uuid(), 'dead', max(over), array_agg(id) from gone where $1 <> ''`, channel, n)
}
