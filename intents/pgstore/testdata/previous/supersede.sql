-- supersede: marks the locked older revisions of a fact as superseded by the newest. One that waits ends here; one on the wire ends
-- when its attempt does; a marked one never becomes claimable again. It must not be one statement with older_lock.sql: an update
-- looks at the rows of its own snapshot first, and passes over one that became PENDING while the lock was waited for.
with older as materialized (
    select i.id, i.generation, i.state from intents i where i.id = any($2::uuid[])
)
update intents i
   set superseded_by = $1::uuid,
       updated_at = case when i.state = 'pending' then now() else i.updated_at end,
       state = case when i.state <> 'pending' then i.state when i.doubt then 'unknown' else 'superseded' end,
       code = case when i.state <> 'pending' then i.code when i.doubt then 'superseded-in-doubt' else 'superseded' end,
       message = case when i.state <> 'pending' then i.message
                      when i.doubt then 'an earlier attempt may have been accepted; a newer revision was admitted, so it is not sent again'
                      else 'a newer revision was admitted' end
  from older
 where i.id = older.id and i.generation = older.generation and i.state = older.state
returning i.id, i.generation, older.state, i.state
