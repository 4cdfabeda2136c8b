-- witness_accepted: notes on a locked intent that an attempt of it was accepted, for whoever is at it now: see settle.sql.
update intents i
   set accepted = true, provider_id = case when $4::text = '' then i.provider_id else $4::text end
 where i.id = $1::uuid and i.generation = $2::int and i.state = $3::text
