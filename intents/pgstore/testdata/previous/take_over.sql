-- take_over: re-claims intents whose lease ran out by the database's clock. The generation moves on, so the old owner can write
-- nothing any more; its attempt goes on record as unknown, and the intent is in doubt from here on. What this owner took over
-- before and has not settled is returned again: such claims are never sent, only settled.
-- Channels are filtered before the limit, so that those which nobody here knows hide nothing.
with mine as (
    select i.id from agenda a join intents i on i.id = a.intent_id
     where a.channel = any($1::text[]) and a.kind = 'leased' and a.claim_token is null and a.generation = i.generation
       and i.state = 'sending' and i.owner = $2::text and i.lease_until > now()
     limit $4::int
), leased as (
    select i.id, i.generation, i.owner, i.claimed_at
      from agenda a join intents i on i.id = a.intent_id
     where a.kind = 'leased' and a.at <= now() and a.channel = any($1::text[]) and a.generation = i.generation
       and i.state = 'sending' and i.lease_until <= now()
     order by a.at
     limit $4::int
       for update of i skip locked
), batched as (
    select i.id, i.generation, i.owner, i.claimed_at
      from claim_batches b cross join unnest(b.intents) as x (id) join intents i on i.id = x.id
     where b.lease_until <= now() and i.channel = any($1::text[]) and i.generation = 1 and i.state = 'sending' and i.lease_until <= now()
     limit $4::int
       for update of i skip locked
), over as materialized (
    select distinct on (id) id, generation, owner, claimed_at from (
        select id, generation, owner, claimed_at from leased union all select id, generation, owner, claimed_at from batched) o limit $4::int
), taken as (
    update intents i
       set generation = i.generation + 1, takeovers = i.takeovers + 1, owner = $2::text, lease_until = now() + $3::interval, claimed_at = now(),
           doubt = true, updated_at = now()
      from over o
     where i.id = o.id and i.generation = o.generation and i.state = 'sending' and i.lease_until <= now()
    returning i.id, i.generation, i.channel, i.priority, i.lease_until, i.expires_at, i.fact, i.revision, o.owner, o.claimed_at
), attempted as (
    insert into attempts (intent_id, generation, owner, started_at, ended_at, result, phase, code, message, provider_id, state)
    select id, generation - 1, owner, claimed_at, now(), 'unknown', '', 'lease-over', 'the claim was not settled in time', '', 'sending'
      from taken
    on conflict do nothing
), noted as (
    insert into changes (intent_id, generation, from_state, to_state, at, cause, actor, detail)
    select id, generation, 'sending', 'sending', now(), 'takeover', $2::text, 'the lease of ' || owner || ' ran out' from taken
), enlisted as (
    insert into agenda as a (intent_id, channel, kind, priority, at, expires_at, fact, revision, generation)
    select id, channel, 'leased', priority, lease_until, expires_at, fact, revision, generation from taken
    on conflict (intent_id) do update set kind = 'leased', at = excluded.at, generation = excluded.generation, claim_token = null
)
select id from taken union all select id from mine
