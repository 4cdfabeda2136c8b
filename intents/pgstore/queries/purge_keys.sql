-- purge_keys: forgets locked facts, all revisions together, where every one of them is behind the watermark, older than the window and
-- of an intent that is not open. The watermark is read here, whatever the caller believes it to be; it only moves on.
with gone as materialized (
    select k.fact
      from keys k cross join (select least(acked_to, now() - $3::interval) as upto from watermark where id = 1) w
     where k.fact = any($1::bytea[]) and k.occurred_at <= w.upto
       and not exists (select from intents i where i.id = k.intent_id and i.state <> all($2::text[]))
       and not exists (
           select from keys_older o left join intents i on i.id = o.intent_id
            where o.fact = k.fact and (o.occurred_at > w.upto or i.state <> all($2::text[])))
), older as (
    delete from keys_older o using gone g where o.fact = any($1::bytea[]) and o.fact = g.fact
)
delete from keys k using gone g where k.fact = any($1::bytea[]) and k.fact = g.fact
