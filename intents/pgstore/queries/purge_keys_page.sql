-- purge_keys_page: the next keys by their facts' time, as far as they are older than the window. A fact may go when none of its revisions is
-- younger than that, and none of their intents is open.
select p.occurred_at, p.fact, now() - p.occurred_at,
       coalesce((select i.state = any($1::text[]) from intents i where i.id = p.intent_id), true)
           and not exists (
               select from keys_older o left join intents i on i.id = o.intent_id
                where o.fact = p.fact and (o.occurred_at > now() - $2::interval or i.state <> all($1::text[])))
  from (select occurred_at, fact, intent_id from keys
         where occurred_at <= now() - $2::interval and (occurred_at, fact) > ($3::timestamptz, $4::bytea)
         order by occurred_at, fact limit $5::int) p
 order by p.occurred_at, p.fact
