-- claim: claims due intents of one channel, most urgent first, just before they are sent. A wish that was granted before is
-- answered with what it got, as far as the lease still stands; that lease begins anew.
-- Only the row in "intents" is locked. The agenda row may come from an older snapshot, therefore the generations must agree.
-- A key whose first use is not under the scope that it was admitted under belongs to none: what was rendered may not fit there.
-- A key is in use since the first attempt that may have reached the provider, a throttled one too, unless it has forgotten that by now.
-- What was erased is claimed like anything else: its claimer ends it.
-- A revision waits while an older one is on the wire; once it is here, no older one can get there any more.
with again as (
    update intents i set lease_until = now() + $4::interval, claimed_at = now()
      from agenda a
     where a.channel = $1::text and a.kind = 'leased' and a.claim_token = $6::uuid and i.id = a.intent_id
       and i.generation = a.generation and i.owner = $3::text and i.state = 'sending' and i.lease_until > now()
    returning i.id, i.generation, i.caller, i.channel, i.key, i.revision, i.effect_key, i.collapse_key, i.priority, i.expires_at, i.traceparent,
           i.created_at, i.not_before, i.guarantee, i.doubt, i.first_used_at, i.key_scope, i.attempts, i.takeovers, i.claimed_at
), picked as materialized (
    select due.id, due.generation
      from (values (0), (1), (2)) as p (priority)
     cross join lateral (
           select i.id, i.generation
             from agenda a join intents i on i.id = a.intent_id
            where a.channel = $1::text and a.kind = 'due' and a.priority = p.priority and a.at <= now()
              and (a.expires_at is null or a.expires_at > now())
              and i.generation = a.generation and i.state = 'pending'
              and (a.revision = 0 or not exists (
                  select from keys_older o join intents older on older.id = o.intent_id
                   where o.fact = a.fact and o.revision < a.revision and older.state = 'sending'))
            order by a.at
            limit $5::int
              for update of i skip locked) as due
     where not exists (select from again)
       and not exists (select from channel_states c where c.channel = $1::text and c.paused_until > now())
     limit $5::int
), claimed as (
    update intents i
       set state = 'sending', generation = i.generation + 1, owner = $3::text, lease_until = now() + $4::interval, claimed_at = now(),
           updated_at = now(),
           first_used_at = case when i.doubt then i.first_used_at else coalesce((
               select min(a.started_at) from attempts a
                where a.intent_id = i.id and a.phase <> 'connect' and a.ended_at > now() - $7::interval - $4::interval), now()) end,
           key_scope = case when i.doubt then i.key_scope when i.key_scope in ('', $2::text) then $2::text else 'changed' end
      from picked p
     where i.id = p.id and i.generation = p.generation and i.state = 'pending'
    returning i.id, i.generation, i.caller, i.channel, i.key, i.revision, i.effect_key, i.collapse_key, i.priority, i.expires_at, i.traceparent,
           i.created_at, i.not_before, i.guarantee, i.doubt, i.first_used_at, i.key_scope, i.attempts, i.takeovers, i.claimed_at, i.lease_until
), leased as (
    update agenda a set kind = 'leased', at = c.lease_until, generation = c.generation, claim_token = $6::uuid
      from claimed c where a.intent_id = c.id
)
select i.id, i.generation, i.caller, i.channel, i.key, i.revision, coalesce(c.recipient, ''), c.rendered, i.effect_key, i.collapse_key, i.priority,
       i.expires_at, i.traceparent, i.created_at, i.not_before, i.guarantee, i.doubt, i.first_used_at, i.key_scope, i.attempts, i.takeovers, i.claimed_at,
       c.intent_id is null as forgotten
  from (select id, generation, caller, channel, key, revision, effect_key, collapse_key, priority, expires_at, traceparent,
                 created_at, not_before, guarantee, doubt, first_used_at, key_scope, attempts, takeovers, claimed_at from again
        union all
        select id, generation, caller, channel, key, revision, effect_key, collapse_key, priority, expires_at, traceparent,
                 created_at, not_before, guarantee, doubt, first_used_at, key_scope, attempts, takeovers, claimed_at from claimed) i
  left join contents c on c.intent_id = i.id
 order by i.priority, i.created_at
