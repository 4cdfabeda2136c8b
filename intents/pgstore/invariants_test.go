package pgstore_test

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// What must hold at any instant between transactions; each query returns the number of offences. Events must not have been
// forgotten for the last two.
var invariants = map[string]string{
	"at most one intent for an identity": `
		select count(*) from (select from intents group by caller, channel, key, revision having count(*) > 1) x`,
	"every intent has its key": `
		select count(*) from intents i where not exists (select from keys k where k.fact = i.fact and k.revision = i.revision and k.intent_id = i.id)
		and not exists (select from keys_older o where o.fact = i.fact and o.revision = i.revision and o.intent_id = i.id)`,
	"the key holds the newest revision": `
		select count(*) from intents i join keys k on k.fact = i.fact where i.revision > k.revision`,
	"somebody will look at every open intent": `
		select count(*) from intents i where state in ('pending', 'sending', 'unknown')
		and not exists (select from agenda a where a.intent_id = i.id and a.generation = i.generation and a.channel = i.channel
			and a.kind = case i.state when 'pending' then 'due' when 'sending' then 'leased' else 'unknown' end)
		and not (state = 'sending' and generation = 1 and exists (select from claim_batches b where i.id = any(b.intents)))`,
	"the agenda holds nothing else": `
		select count(*) from agenda a join intents i on i.id = a.intent_id where i.state not in ('pending', 'sending', 'unknown')`,
	"an owner and a lease while sending, and only then": `
		select count(*) from intents where (state = 'sending') <> (owner <> '') or (state = 'sending') <> (lease_until is not null)`,
	"an older revision never waits": `
		select count(*) from intents i join keys k on k.fact = i.fact where i.revision < k.revision and i.state = 'pending'`,
	"two revisions of a fact are never on the wire by claims of the agenda": `
		select count(*) from intents i join intents o on o.fact = i.fact and o.revision < i.revision where i.state = 'sending' and o.state = 'sending'`,
	"no attempt of a generation to come": `
		select count(*) from attempts t join intents i on i.id = t.intent_id where t.generation > i.generation`,
	"a terminal state is entered once and not left": `
		select count(*) from intents i join lateral (
			select count(*) as ends, min(state) as state from (
				select t.state from attempts t where t.intent_id = i.id union all select c.to_state from changes c where c.intent_id = i.id) s
			where s.state not in ('pending', 'sending', 'unknown')) e on true
		where e.ends > 1 or e.ends = 1 and e.state <> i.state or e.ends = 0 and i.state not in ('pending', 'sending', 'unknown')`,
	"an event for every outcome": `
		select count(*) from intents i where state not in ('pending', 'sending') and not exists (
			select from outbox o cross join unnest(o.subjects, o.generations, o.whats) as e (id, generation, what)
			where e.id = i.id and e.generation = i.generation and e.what = i.state)`,
	"every event once": `
		select count(*) from (select from outbox o cross join unnest(o.subjects, o.generations, o.whats) as e (id, generation, what)
			group by e.id, e.generation, e.what having count(*) > 1) x`,
}

// holds fails the test for every invariant that does not hold.
func (b *bench) holds() {
	b.t.Helper()
	for _, name := range b.offended() {
		b.t.Errorf("does not hold: %s", name)
	}
}

// offended names the invariants that do not hold, all read in one moment.
func (b *bench) offended() []string {
	b.t.Helper()
	var all []string
	for name, sql := range invariants {
		all = append(all, "select '"+name+"', ("+sql+")")
	}
	rows, _ := b.db.Query(b.ctx, "select name from ("+strings.Join(all, " union all ")+") as i (name, n) where n > 0 order by name")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return names
}
