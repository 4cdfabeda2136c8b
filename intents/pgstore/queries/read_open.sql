-- read_open: open intents of one state, newest first. The agenda enlists them, as kind $13; those on the wire that were claimed at
-- admission stand in claim_batches. Both only say where to look: the intent's own row has the state. The rest is as in read_walk.
with open as (
    select intent_id as id from agenda where kind = $13::text and intent_id < $1::uuid and intent_id >= $2::uuid
    union
    select u.id from claim_batches b cross join unnest(b.intents) as u (id)
     where $13::text = 'leased' and u.id < $1::uuid and u.id >= $2::uuid
)
select i.id
  from open join intents i on i.id = open.id
 where i.created_at >= $3::timestamptz and i.created_at < $4::timestamptz
   and ($5::text = '' or i.caller = $5) and ($6::text = '' or i.channel = $6) and ($7::text = '' or i.key = $7)
   and ($8::int is null or i.revision = $8) and ($9::text = '' or i.state = $9)
   and ($10::bytea[] is null or i.recipient_hash = any($10)) and ($11::text = '' or i.provider_id = $11)
 order by i.id desc
 limit $12::int
