-- older_lock: locks the revisions of a fact that nothing has superseded yet, whatever their state, and waits for whoever is changing
-- one of them. It follows key_lock.sql in a statement of its own, so its snapshot holds every revision admitted before.
select i.id
  from keys_older o join intents i on i.id = o.intent_id
 where o.fact = $1::bytea and i.superseded_by is null
 order by i.id
   for update of i
