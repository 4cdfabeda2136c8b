-- renew_admitted: claims made by an admission whose reply was lost, given to their owner again. The lease begins anew, so that a
-- trust window counted from before this statement holds.
update intents
   set lease_until = now() + $3::interval, claimed_at = now()
 where id = any($1::uuid[]) and generation = 1 and owner = $2::text and state = 'sending' and lease_until > now()
returning id, created_at, claimed_at, first_used_at
