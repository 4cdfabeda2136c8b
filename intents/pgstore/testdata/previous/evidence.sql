-- evidence: puts what somebody learned about an effect on record.
insert into evidence (intent_id, at, source, generation, result, code, message, provider_id, settled)
values ($1::uuid, now(), $2::text, $3::int, $4::text, $5::text, $6::text, $7::text, $8::bool)
