-- read_walk: one step of a walk through the ids, newest first: what no index finds is looked for in a bounded number of rows.
-- Ids lead with the database's clock in milliseconds; the bounds of creation are exact.
select id
  from intents
 where id < $1::uuid and id >= $2::uuid
   and created_at >= $3::timestamptz and created_at < $4::timestamptz
   and ($5::text = '' or caller = $5) and ($6::text = '' or channel = $6) and ($7::text = '' or key = $7)
   and ($8::int is null or revision = $8) and ($9::text = '' or state = $9)
   and ($10::bytea[] is null or recipient_hash = any($10)) and ($11::text = '' or provider_id = $11)
 order by id desc
 limit $12::int
