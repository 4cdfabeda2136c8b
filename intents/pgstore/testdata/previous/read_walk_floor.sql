-- read_walk_floor: the last id of the next $3 ids below $1, null if fewer are left down to $2: how far one step of a walk goes.
select id from intents where id < $1::uuid and id >= $2::uuid order by id desc offset $3::int - 1 limit 1
