-- purge_contents: forgets recipients and contents of intents that ended. The intents are locked, so that none of them is taken up
-- again meanwhile; one that somebody is at is passed over.
with ended as materialized (
    select i.id from intents i
     where i.id = any($1::uuid[]) and i.state = any($2::text[]) and i.updated_at <= now() - $3::interval
     order by i.id for update skip locked
)
delete from contents c
 where c.intent_id = any($1::uuid[])
   and (c.intent_id in (select id from ended) or not exists (select from intents i where i.id = c.intent_id))
