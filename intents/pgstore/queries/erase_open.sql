-- erase_open: ends intents that wait, because their recipient is to be forgotten; their rows are locked. note_changes.sql follows.
update intents i
   set state = e.to_state, code = case e.to_state when 'cancelled' then 'erased' else 'erased-in-doubt' end, message = '', updated_at = now()
  from unnest($1::uuid[], $2::int[], $3::text[]) as e (id, generation, to_state)
 where i.id = e.id and i.generation = e.generation and i.state = 'pending' and (not i.doubt or e.to_state = 'unknown')
returning i.id, i.generation, 'pending', i.state
