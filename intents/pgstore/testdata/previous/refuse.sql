-- refuse: stores refusals, and their events; one that is stored already is left alone.
with stored as (
    insert into refusals (id, at, verdict, code, message, fields, caller, channel, key, revision, intent_id, subject, stream_seq, sample)
    select r.id, now(), r.verdict, r.code, r.message, array(select json_array_elements_text(r.fields::json)), r.caller, r.channel, r.key,
           r.revision, r.intent_id, r.subject, r.stream_seq, r.sample
      from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int[], $10::uuid[],
               $11::text[], $12::bigint[], $13::text[])
           as r (id, verdict, code, message, fields, caller, channel, key, revision, intent_id, subject, stream_seq, sample)
     order by r.id
    on conflict (id) do nothing
    returning id, verdict, code, message, caller, channel, key, revision, intent_id, stream_seq
)
insert into outbox (subjects, standing, generations, whats, callers, channels, keys, revisions, provider_ids, codes, dead_recipients,
       messages, stream_seqs)
select array_agg(id), array_agg(intent_id), array_agg(0), array_agg(verdict), array_agg(caller), array_agg(channel), array_agg(key),
       array_agg(revision), array_agg(''::text), array_agg(code), array_agg(false),
       array_agg(message), array_agg(stream_seq)
  from stored having count(*) > 0
