-- note_changes: what follows from transitions that no attempt explains, in the transaction that made them: the change on record,
-- the agenda, and an event for every state that is not pending.
with changed as materialized (
    select c.*, i.caller, i.channel, i.key, i.revision, i.fact, i.priority, i.expires_at, i.provider_id, i.code, i.dead_recipient,
           i.state in ('pending', 'unknown') as open
      from unnest($1::uuid[], $2::int[], $3::text[], $4::text[]) with ordinality as c (id, generation, from_state, to_state, n)
      join intents i on i.id = c.id and i.generation = c.generation and i.state = c.to_state
), noted as (
    insert into changes (intent_id, generation, from_state, to_state, at, cause, actor, detail)
    select id, generation, from_state, to_state, now(), $5::text, $6::text, $7::text from changed order by n
), closed as (
    delete from agenda a using changed c where a.intent_id = c.id and not c.open
), enlisted as (
    insert into agenda as a (intent_id, channel, kind, priority, at, expires_at, fact, revision, generation)
    select id, channel, case to_state when 'pending' then 'due' else 'unknown' end, priority,
           case to_state when 'pending' then now() + $8::interval else now() end, expires_at, fact, revision, generation
      from changed where open
    on conflict (intent_id) do update set kind = excluded.kind, at = excluded.at, generation = excluded.generation, claim_token = null, look_at = null
), announced as (
    insert into outbox (subjects, generations, whats, callers, channels, keys, revisions, provider_ids, codes, dead_recipients)
    select array_agg(id), array_agg(generation), array_agg(to_state), array_agg(caller), array_agg(channel), array_agg(key), array_agg(revision),
           array_agg(provider_id), array_agg(code), array_agg(dead_recipient)
      from changed where to_state <> 'pending' having count(*) > 0
)
select count(*) from changed
