-- claims_held: the claims that an owner holds on the given intents, without what would be sent: they are settled, never sent. It
-- follows take_over.sql in the same transaction.
select i.id, i.generation, i.caller, i.channel, i.key, i.revision, '' as recipient, null::bytea as rendered, i.effect_key, i.collapse_key, i.priority,
       i.expires_at, i.traceparent, i.created_at, i.not_before, i.guarantee, i.doubt, i.first_used_at, i.key_scope, i.attempts, i.takeovers, i.claimed_at,
       false as forgotten
  from intents i
 where i.id = any($1::uuid[]) and i.owner = $2::text and i.state = 'sending'
 order by i.id
