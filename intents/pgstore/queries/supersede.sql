-- supersede: marks every open older revision of a fact as superseded by the newest. One that waits ends here; one on the wire
-- ends when its attempt does; a marked one never becomes claimable again. It runs after key_lock.sql in a statement of its own,
-- so its snapshot holds every revision admitted before, and it waits for whoever is changing one of them at the moment.
with older as materialized (
    select i.id, i.generation, i.state
      from keys_older o join intents i on i.id = o.intent_id
     where o.fact = $1::bytea and i.superseded_by is null and i.state in ('pending', 'sending', 'unknown')
     order by i.id
       for update of i
)
update intents i
   set superseded_by = $2::uuid, updated_at = now(),
       state = case when i.state <> 'pending' then i.state when i.doubt then 'unknown' else 'superseded' end,
       code = case when i.state <> 'pending' then i.code when i.doubt then 'superseded-in-doubt' else 'superseded' end,
       message = case when i.state <> 'pending' then i.message
                      when i.doubt then 'an earlier attempt may have been accepted; a newer revision was admitted, so it is not sent again'
                      else 'a newer revision was admitted' end
  from older
 where i.id = older.id and i.generation = older.generation and i.state = older.state
returning i.id, i.generation, older.state, i.state
