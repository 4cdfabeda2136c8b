-- sweep: ends due intents that are too late: nothing was applied, or nobody knows. note_changes.sql follows.
with late as materialized (
    select i.id, i.generation
      from agenda a join intents i on i.id = a.intent_id
     where a.kind = 'due' and a.expires_at <= now() and i.generation = a.generation and i.state = 'pending'
     order by a.expires_at
     limit $1::int
       for update of i skip locked
)
update intents i
   set state = case when i.doubt then 'unknown' else 'expired' end,
       code = case when i.doubt then 'expired-in-doubt' else 'expired' end,
       message = case when i.doubt then 'an earlier attempt may have been accepted; expires_at passed before it could be sent again'
                      else 'expires_at passed before it was sent' end,
       updated_at = now()
  from late
 where i.id = late.id and i.generation = late.generation and i.state = 'pending'
returning i.id, i.generation, i.state
