-- finish_batches: forgets claim batches whose intents are all settled. One that still holds a claim in SENDING stays for the
-- takeover: its row is all that reminds of it. It follows settle.sql in the same transaction.
delete from claim_batches b
 where b.id = any($1::uuid[])
   and not exists (select from intents i where i.id = any(b.intents) and i.state = 'sending' and i.generation = 1)
