-- settle: writes the outcome of claims, each only where generation and owner still hold the intent in SENDING; what is left out
-- of the answer is looked into by settled_before.sql. An intent that a newer revision superseded meanwhile does not go back to
-- PENDING: it ends, or waits as UNKNOWN when in doubt. One that was accepted, as evidence said meanwhile, is not sent again and is not
-- unknown: that stands in the row itself, where an update that waited for the witness sees it. The attempt goes on record in the same breath, and so does the event.
-- The array beside the join leads the planner to the primary key.
with asked as materialized (
    select s.id, s.generation, s.owner, s.to_state, s.delay, s.counted, s.doubt, s.duplicate, s.code, s.message, s.provider_id, s.dead_recipient,
           s.tried, s.result, s.phase, s.result_code, s.result_message, s.result_provider_id, s.took, s.ago, s.n
      from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::interval[], $6::bool[], $7::bool[], $8::bool[], $9::text[], $10::text[],
               $11::text[], $12::bool[], $13::bool[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::interval[], $20::interval[])
           with ordinality as s (id, generation, owner, to_state, delay, counted, doubt, duplicate, code, message, provider_id, dead_recipient,
               tried, result, phase, result_code, result_message, result_provider_id, took, ago, n)
), settled as (
    update intents i
       set state = case when i.accepted and s.to_state in ('pending', 'unknown') then 'succeeded'
                        when s.to_state <> 'pending' or i.superseded_by is null then s.to_state
                        when i.doubt or s.doubt then 'unknown' else 'superseded' end,
           code = case when i.accepted and s.to_state in ('pending', 'unknown') then 'evidence'
                       when s.to_state <> 'pending' or i.superseded_by is null then s.code
                       when i.doubt or s.doubt then 'superseded-in-doubt' else 'superseded' end,
           message = case when i.accepted and s.to_state in ('pending', 'unknown') then 'an attempt was accepted, as evidence says that came during the next one'
                          when s.to_state <> 'pending' or i.superseded_by is null then s.message
                          when i.doubt or s.doubt then 'an attempt may have been accepted; a newer revision was admitted, so it is not sent again'
                          else 'a newer revision was admitted' end,
           possible_duplicates = i.possible_duplicates + (s.duplicate and i.superseded_by is null and not i.accepted)::int,
           attempts = i.attempts + s.counted::int,
           doubt = s.to_state <> 'succeeded' and not (i.accepted and s.to_state in ('pending', 'unknown')) and (i.doubt or s.doubt),
           provider_id = case when s.provider_id = '' then i.provider_id else s.provider_id end,
           dead_recipient = i.dead_recipient or s.dead_recipient,
           owner = '', lease_until = null, updated_at = now()
      from asked s
     where i.id = any($1::uuid[]) and i.id = s.id and i.generation = s.generation and i.owner = s.owner and i.state = 'sending'
    returning s.n, i.id, i.generation, s.owner, i.state, s.delay, i.caller, i.channel, i.key, i.revision, i.fact, i.priority, i.expires_at,
              i.code, i.message, i.provider_id, i.dead_recipient, s.tried, s.result, s.phase, s.result_code, s.result_message,
              s.result_provider_id, s.took, s.ago
), attempted as (
    insert into attempts (intent_id, generation, owner, started_at, ended_at, result, phase, code, message, provider_id, state)
    select id, generation, owner, now() - ago - took, now() - ago, result, phase, result_code, result_message, result_provider_id, state
      from settled where tried
), noted as (
    insert into changes (intent_id, generation, from_state, to_state, at, cause, actor, detail)
    select id, generation, 'sending', state, now(), code, owner, message from settled where not tried order by n
), closed as (
    delete from agenda a using settled s where a.intent_id = s.id and s.state not in ('pending', 'unknown')
), enlisted as (
    insert into agenda as a (intent_id, channel, kind, priority, at, expires_at, fact, revision, generation)
    select id, channel, case state when 'pending' then 'due' else 'unknown' end, priority,
           case state when 'pending' then now() + delay else now() end, expires_at, fact, revision, generation
      from settled where state in ('pending', 'unknown')
    on conflict (intent_id) do update set kind = excluded.kind, at = excluded.at, generation = excluded.generation, claim_token = null, look_at = null
), announced as (
    insert into outbox (subjects, generations, whats, callers, channels, keys, revisions, provider_ids, codes, dead_recipients)
    select array_agg(id), array_agg(generation), array_agg(state), array_agg(caller), array_agg(channel), array_agg(key), array_agg(revision),
           array_agg(provider_id), array_agg(code), array_agg(dead_recipient)
      from settled where state <> 'pending' having count(*) > 0
)
select n, state from settled
