-- events: the oldest rows of the outbox. Ids are drawn under the lock of the intents that the events speak of, so that their
-- order is the order of each intent's events.
select id, at, subjects, standing, generations, whats, callers, channels, keys, revisions, provider_ids, codes, dead_recipients,
       messages, stream_seqs
  from outbox order by id limit $1::int
