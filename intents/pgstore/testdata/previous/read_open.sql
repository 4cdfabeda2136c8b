-- read_open: open intents that wait, of one state, newest first. The agenda enlists them, as kind $13; it only says where to look,
-- the intent's own row has the state. One at a time, so that a page costs what it shows and not what waits. The rest is as in
-- read_walk.
select o.id
  from (select intent_id as id from agenda where kind = $13::text and intent_id < $1::uuid and intent_id >= $2::uuid
         order by intent_id desc) o
 cross join lateral (
       select from intents i
        where i.id = o.id and i.created_at >= $3::timestamptz and i.created_at < $4::timestamptz
          and ($5::text = '' or i.caller = $5) and ($6::text = '' or i.channel = $6) and ($7::text = '' or i.key = $7)
          and ($8::int is null or i.revision = $8) and ($9::text = '' or i.state = $9)
          and ($10::bytea[] is null or i.recipient_hash = any($10)) and ($11::text = '' or i.provider_id = $11)
        limit 1) same
 order by o.id desc
 limit $12::int
