-- erase_walk: one step of a walk through all intents, oldest first: how many it saw, where it ended, on which channels they are, and
-- which of them are for one of the recipients. No index finds a recipient: it would cost every admission, and this is rare.
with step as materialized (
    select id, channel, recipient_hash from intents where id > $1::uuid order by id limit $3::int
)
select (select count(*) from step), coalesce((select id from step order by id desc limit 1), $1::uuid),
       array(select distinct channel from step), array(select id from step where recipient_hash = any($2::bytea[]) order by id)
