-- purge_intents: forgets intents that ended, and whatever is recorded of them. A key that leads to one keeps it; none is made for an
-- intent that is there already.
with gone as materialized (
    select i.id from intents i
     where i.id = any($1::uuid[]) and i.state = any($2::text[]) and i.updated_at <= now() - $3::interval
       and not exists (select from keys k where k.fact = i.fact and k.intent_id = i.id)
       and not exists (select from keys_older o where o.fact = i.fact and o.revision = i.revision and o.intent_id = i.id)
     order by i.id for update of i skip locked
), no_attempts as (
    delete from attempts a using gone g where a.intent_id = any($1::uuid[]) and a.intent_id = g.id
), no_changes as (
    delete from changes c using gone g where c.intent_id = any($1::uuid[]) and c.intent_id = g.id
), no_evidence as (
    delete from evidence e using gone g where e.intent_id = any($1::uuid[]) and e.intent_id = g.id
), no_contents as (
    delete from contents c using gone g where c.intent_id = any($1::uuid[]) and c.intent_id = g.id
)
delete from intents i using gone g where i.id = any($1::uuid[]) and i.id = g.id
