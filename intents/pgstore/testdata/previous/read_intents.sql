-- read_intents: intents by id, newest first, with what stands apart from them: recipient and collapse id (forgotten sooner), and
-- when a pending one is due.
select i.id, i.caller, i.channel, i.key, i.revision, i.state, i.guarantee, i.generation, coalesce(c.recipient, ''),
       coalesce(c.collapse_id, ''), i.effect_key, i.occurred_at, i.created_at, i.updated_at, i.not_before, i.expires_at,
       case when i.state = 'pending' then a.at end, case when i.state = 'sending' then i.lease_until end, i.first_used_at,
       i.owner, i.provider_id, i.code, i.message, i.attempts, i.takeovers, i.possible_duplicates, i.doubt, i.dead_recipient,
       i.superseded_by, i.priority, i.labels
  from intents i
  left join contents c on c.intent_id = i.id
  left join agenda a on a.intent_id = i.id and a.kind = 'due'
 where i.id = any($1::uuid[])
 order by i.id desc
