-- revise: admits a newer revision of a fact whose key is locked. It is never claimed in the same breath: an older one may be on
-- the wire. The older key moves aside and stays remembered.
with aside as (
    insert into keys_older (fact, revision, intent_id, fingerprint_version, fingerprint, occurred_at)
    select fact, revision, intent_id, fingerprint_version, fingerprint, occurred_at from keys where fact = $2::bytea
), asked as (
    select (substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || substr($1::uuid::text, 14))::uuid as id
      from (select lpad(to_hex(floor(extract(epoch from now()) * 1000)::bigint), 12, '0')) as t (hex)
), newest as (
    update keys k set revision = $6::int, intent_id = asked.id, fingerprint_version = $7::smallint, fingerprint = $8::bytea, occurred_at = $9::timestamptz
      from asked where k.fact = $2::bytea
), new_intent as (
    insert into intents (id, fact, caller, channel, key, revision, guarantee, occurred_at, created_at, not_before, expires_at, priority,
           effect_key, collapse_key, recipient_hash, labels, traceparent, state, generation, updated_at, owner, key_scope)
    select id, $2::bytea, $3::text, $4::text, $5::text, $6::int, $10::text, $9::timestamptz, now(), $18::timestamptz, $19::timestamptz, $20::smallint,
           $11::text, $12::text, $13::bytea, $21::text::jsonb, $22::text, 'pending', 0, now(), '', $23::text
      from asked
), new_content as (
    insert into contents (intent_id, recipient, content, collapse_id, rendered)
    select id, $14::text, $15::text, $16::text, $17::bytea from asked
), enlisted as (
    insert into agenda (intent_id, channel, kind, priority, at, expires_at, fact, revision, generation)
    select id, $4::text, 'due', $20::smallint, greatest(now(), $18::timestamptz), $19::timestamptz, $2::bytea, $6::int, 0 from asked
)
select id from asked
