-- read_facts: the remembered intents of some facts, newest first. $13 are the facts; the rest is as in read_walk.
select i.id
  from (select intent_id from keys where fact = any($13::bytea[])
        union all
        select intent_id from keys_older where fact = any($13::bytea[])) k
  join intents i on i.id = k.intent_id
 where i.id < $1::uuid and i.id >= $2::uuid
   and i.created_at >= $3::timestamptz and i.created_at < $4::timestamptz
   and ($5::text = '' or i.caller = $5) and ($6::text = '' or i.channel = $6) and ($7::text = '' or i.key = $7)
   and ($8::int is null or i.revision = $8) and ($9::text = '' or i.state = $9)
   and ($10::bytea[] is null or i.recipient_hash = any($10)) and ($11::text = '' or i.provider_id = $11)
 order by i.id desc
 limit $12::int
