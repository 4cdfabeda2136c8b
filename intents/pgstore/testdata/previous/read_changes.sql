-- read_changes: the changes of an intent that no attempt explains, oldest first.
select generation, from_state, to_state, at, cause, actor, detail from changes where intent_id = $1::uuid order by id
