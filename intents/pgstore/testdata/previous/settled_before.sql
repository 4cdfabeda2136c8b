-- settled_before: how things stand with claims that a settlement found no longer in SENDING under their owner. It follows
-- settle.sql in a statement of its own, because a row that settle.sql waited for may have been settled by its own earlier try.
-- The attempt that a takeover put on record says 'sending'; any other one is a settlement by the claim's owner.
select a.n, i.state, coalesce(
       (select t.state from attempts t where a.tried and t.intent_id = a.id and t.generation = a.generation and t.owner = a.owner and t.state <> 'sending'),
       (select c.to_state from changes c where not a.tried and c.intent_id = a.id and c.generation = a.generation and c.actor = a.owner
           and c.from_state = 'sending' and c.to_state <> 'sending' and c.cause <> 'evidence'))
  from unnest($1::uuid[], $2::int[], $3::text[], $4::bool[]) with ordinality as a (id, generation, owner, tried, n)
  left join intents i on i.id = a.id
