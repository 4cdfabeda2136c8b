-- settle_by_evidence: settles an intent that nobody sends by what is known of its effect now; its row is locked already.
-- Nothing was applied, or it was accepted: either ends the doubt. A takeover that has not been settled ends with it. note_changes.sql follows.
update intents i
   set state = $4::text, code = $5::text, message = $6::text, doubt = false, owner = '', lease_until = null, updated_at = now(),
       provider_id = case when $7::text = '' then i.provider_id else $7::text end,
       dead_recipient = i.dead_recipient or $8::bool
 where i.id = $1::uuid and i.generation = $2::int and i.state = $3::text
