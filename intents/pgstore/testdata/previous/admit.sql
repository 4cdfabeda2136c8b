-- admit: takes in a batch of new facts, each at most once in the batch. A fact that is remembered already, or that another
-- transaction is just taking in, is left out of the answer; so is one at or behind the watermark. The rest of the protocol
-- for those is known_facts.sql and the revision path.
-- The watermark's share lock comes first in every transaction that takes in keys: the purge cannot move it under our feet.
-- Keys are inserted in the order of facts, so that two overlapping batches wait in line instead of deadlocking.
with watermark_now as materialized (
    select acked_to from watermark where id = 1 for share
), instant as (
    select substr(hex, 1, 8) || '-' || substr(hex, 9, 4) as prefix
      from (select lpad(to_hex(floor(extract(epoch from now()) * 1000)::bigint), 12, '0')) as t (hex)
), asked as materialized (
    select (instant.prefix || substr(a.token::text, 14))::uuid as id, a.*,
           (a.claim_now and (a.not_before is null or a.not_before <= now()) and (a.expires_at is null or a.expires_at > now())
               and not exists (select from channel_states c where c.channel = a.channel and c.paused_until > now())) as claimed
      from instant cross join unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::int[], $7::smallint[], $8::bytea[],
               $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bytea[], $15::text[], $16::text[], $17::text[],
               $18::bytea[], $19::timestamptz[], $20::timestamptz[], $21::smallint[], $22::text[], $23::text[], $24::bool[])
           with ordinality as a (token, fact, caller, channel, key, revision, fingerprint_version, fingerprint, occurred_at, guarantee,
               effect_key, collapse_key, key_scope, recipient_hash, recipient, content, collapse_id, rendered, not_before, expires_at,
               priority, labels, traceparent, claim_now, n)
), taken as (
    insert into keys (fact, revision, intent_id, fingerprint_version, fingerprint, occurred_at)
    select a.fact, a.revision, a.id, a.fingerprint_version, a.fingerprint, a.occurred_at
      from asked a, watermark_now w
     where a.occurred_at > w.acked_to
     order by a.fact
    on conflict (fact) do nothing
    returning intent_id
), admitted as materialized (
    select a.* from asked a join taken t on t.intent_id = a.id
), new_intents as (
    insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, not_before, expires_at, priority,
           effect_key, collapse_key, recipient_hash, labels, traceparent, state, generation, updated_at, owner, lease_until, claimed_at,
           first_used_at, key_scope)
    select id, fact, caller, channel, key, revision, guarantee, occurred_at, now(), not_before, expires_at, priority,
           effect_key, collapse_key, recipient_hash, labels::jsonb, traceparent,
           case when claimed then 'sending' else 'pending' end, claimed::int, now(),
           case when claimed then $26::text else '' end, case when claimed then now() + $27::interval end,
           case when claimed then now() end, case when claimed then now() end, key_scope
      from admitted order by id
), new_contents as (
    insert into contents (intent_id, recipient, content, collapse_id, rendered)
    select id, recipient, content, collapse_id, rendered from admitted order by id
), enlisted as (
    insert into agenda (intent_id, channel, kind, priority, at, expires_at, fact, revision, generation)
    select id, channel, 'due', priority, greatest(now(), not_before), expires_at, fact, revision, 0 from admitted where not claimed
), leased as (
    insert into claim_batches as b (id, owner, lease_until, intents)
    select $25::uuid, $26::text, now() + $27::interval, array_agg(id) from admitted where claimed having count(*) > 0
    on conflict (id) do update set intents = b.intents || excluded.intents, lease_until = excluded.lease_until
)
select n, id, claimed, now() from admitted
