-- read_outbox_size: the database's clock, and the rows of the outbox that are not on the broker yet.
select now(), (select count(*) from outbox)
