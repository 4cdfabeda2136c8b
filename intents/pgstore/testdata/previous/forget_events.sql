-- forget_events: removes rows of the outbox that are on the broker.
delete from outbox where id = any($1::bigint[])
