-- events: the oldest rows of the outbox. Ids are drawn under the lock of the intents that the events speak of, so that their
-- order is the order of each intent's events.
select id, events from outbox order by id limit $1::int
