-- stale_batches: forgets claim batches whose lease ran out and whose claims are all settled or taken over.
delete from claim_batches b
 where b.lease_until <= now()
   and not exists (select from unnest(b.intents) as x (id) join intents i on i.id = x.id where i.state = 'sending' and i.generation = 1)
