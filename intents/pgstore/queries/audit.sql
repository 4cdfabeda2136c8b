-- audit: puts on record what somebody does to the data, in the transaction that does it.
insert into audit (run, what, actor, reason, place, targets, intents, detail)
values ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::bytea[], $7::bigint, $8::text::jsonb)
