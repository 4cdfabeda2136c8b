-- unknowns: the UNKNOWN intents of a channel whose provider is to be asked now: first five seconds after they became so, and then after
-- pauses that are as long as they have been UNKNOWN, up to ten minutes. That they are asked about is noted before it is done: two
-- dispatchers do not ask at once, and one that cannot be answered hides no other. Only rows of the agenda are locked, and nothing is
-- waited for.
with due as materialized (
    select a.intent_id, a.generation
      from agenda a
     where a.channel = $1::text and a.kind = 'unknown' and coalesce(a.look_at, a.at) <= now()
       and (a.look_at is not null or a.at <= now() - interval '5 seconds')
     order by coalesce(a.look_at, a.at)
     limit $2::int
       for update skip locked
), noted as (
    update agenda a set look_at = now() + least(greatest(now() - a.at, interval '5 seconds'), interval '10 minutes')
      from due d
     where a.intent_id = d.intent_id and a.generation = d.generation and a.kind = 'unknown'
    returning a.intent_id, a.generation
)
select i.id, i.generation, i.effect_key, i.collapse_key, coalesce(c.recipient, ''), c.rendered, i.priority, i.expires_at, i.attempts,
       i.created_at, i.not_before
  from noted n join intents i on i.id = n.intent_id and i.generation = n.generation and i.state = 'unknown'
  left join contents c on c.intent_id = i.id
 order by i.id
