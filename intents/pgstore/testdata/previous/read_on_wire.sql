-- read_on_wire: intents that are being sent, newest first: those claimed from the agenda, and those claimed at admission, which stand
-- in claim_batches. Both only say where to look. There are as many as there are senders. Arguments are as in read_walk.
with claimed as (
    select intent_id as id from agenda where kind = 'leased'
    union
    select u.id from claim_batches b cross join unnest(b.intents) as u (id)
)
select c.id
  from (select id from claimed where id < $1::uuid and id >= $2::uuid order by id desc) c
 cross join lateral (
       select from intents i
        where i.id = c.id and i.created_at >= $3::timestamptz and i.created_at < $4::timestamptz
          and ($5::text = '' or i.caller = $5) and ($6::text = '' or i.channel = $6) and ($7::text = '' or i.key = $7)
          and ($8::int is null or i.revision = $8) and ($9::text = '' or i.state = $9)
          and ($10::bytea[] is null or i.recipient_hash = any($10)) and ($11::text = '' or i.provider_id = $11)
        limit 1) same
 order by c.id desc
 limit $12::int
