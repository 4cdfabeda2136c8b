-- renew_admitted: claims made by an admission whose reply was lost, given to their owner again. The lease begins anew, so that a
-- trust window counted from before this statement holds. Only what stands in the claim batch was claimed at admission: another
-- sender of the same owner may hold a first claim from the agenda.
update intents i
   set lease_until = now() + $3::interval, claimed_at = now()
  from claim_batches b
 where b.id = $4::uuid and i.id = any(b.intents) and i.id = any($1::uuid[])
   and i.generation = 1 and i.owner = $2::text and i.state = 'sending' and i.lease_until > now()
returning i.id, i.created_at, i.claimed_at, i.first_used_at
