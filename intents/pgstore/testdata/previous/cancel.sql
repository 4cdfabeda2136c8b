-- cancel: ends the intent of an identity if it waits and nothing of it can have been sent. note_changes.sql follows.
with wanted as materialized (
    select i.id, i.generation
      from (select k.intent_id from keys k where k.fact = $1::bytea and k.revision = $2::int
            union all
            select o.intent_id from keys_older o where o.fact = $1::bytea and o.revision = $2::int) same
      join intents i on i.id = same.intent_id
     where i.state = 'pending' and not i.doubt
       for update of i
)
update intents i
   set state = 'cancelled', code = 'cancelled', message = 'cancelled before it was sent', updated_at = now()
  from wanted w
 where i.id = w.id and i.generation = w.generation and i.state = 'pending' and not i.doubt
returning i.id, i.generation
