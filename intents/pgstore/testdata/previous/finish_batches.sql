-- finish_batches: forgets claim batches whose intents are all settled. One that still holds a claim in SENDING stays for the
-- takeover: its row is all that reminds of it. It follows settle.sql in the same transaction.
delete from claim_batches b
 where b.id = any($1::uuid[])
   and not exists (select from unnest(b.intents) as x (id) join intents i on i.id = x.id where i.state = 'sending' and i.generation = 1)
