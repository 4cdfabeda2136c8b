-- find_by_identity: the intent of an identity, as far as its key is remembered.
select i.id, i.caller, i.channel, i.key, i.revision, i.state, i.guarantee, i.generation, coalesce(c.recipient, ''), coalesce(c.collapse_id, ''),
       i.effect_key, i.occurred_at, i.created_at, i.updated_at, i.not_before, i.expires_at,
       case when i.state = 'pending' then a.at end, case when i.state = 'sending' then i.lease_until end,
       i.first_used_at, i.owner, i.provider_id, i.code, i.message, i.attempts, i.takeovers, i.possible_duplicates,
       i.doubt, i.dead_recipient, i.superseded_by, i.priority, i.labels
  from (select k.intent_id from keys k where k.fact = $1::bytea and k.revision = $2::int
        union all
        select o.intent_id from keys_older o where o.fact = $1::bytea and o.revision = $2::int) same
  join intents i on i.id = same.intent_id
  left join contents c on c.intent_id = i.id
  left join agenda a on a.intent_id = i.id
