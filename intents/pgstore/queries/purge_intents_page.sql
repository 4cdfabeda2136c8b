-- purge_intents_page: the next intents that were admitted before the window began, by their time-ordered ids. An intent may go when it came
-- to its end before the window began, and no key leads to it any more.
select p.id, now() - p.updated_at,
       p.state = any($1::text[]) and p.updated_at <= now() - $2::interval
           and not exists (select from keys k where k.fact = p.fact and k.intent_id = p.id)
           and not exists (select from keys_older o where o.fact = p.fact and o.revision = p.revision and o.intent_id = p.id)
  from (select id, fact, revision, state, updated_at from intents
         where id > $3::uuid
           and id < rpad(lpad(to_hex(greatest(0, floor(extract(epoch from now() - $2::interval) * 1000))::bigint), 12, '0'), 32, '0')::uuid
         order by id limit $4::int) p
 order by p.id
