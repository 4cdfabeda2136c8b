-- purge_contents_page: the next contents of intents that were admitted before the window began, by their time-ordered ids. A content may go
-- when its intent came to its end before the window began, or is gone. The limits keep the planner from joining whole tables.
select p.intent_id, coalesce(now() - i.updated_at, $2::interval), coalesce(i.state = any($1::text[]) and i.updated_at <= now() - $2::interval, true)
  from (select c.intent_id from contents c
         where c.intent_id > $3::uuid
           and c.intent_id < rpad(lpad(to_hex(greatest(0, floor(extract(epoch from now() - $2::interval) * 1000))::bigint), 12, '0'), 32, '0')::uuid
         order by c.intent_id limit $4::int) p
  left join lateral (select state, updated_at from intents where id = p.intent_id limit 1) i on true
 order by p.intent_id
