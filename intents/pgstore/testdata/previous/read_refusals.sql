-- read_refusals: requests that were not admitted, newest first; ($1, $2) is the last one seen.
select id, at, verdict, code, message, fields, caller, channel, key, revision, intent_id, subject, stream_seq, sample
  from refusals
 where (at, id) < ($1::timestamptz, $2::uuid) and at >= $3::timestamptz and at < $4::timestamptz
   and ($5::text = '' or caller = $5) and ($6::text = '' or channel = $6) and ($7::text = '' or key = $7)
   and ($8::text = '' or code = $8) and ($9::text = '' or verdict = $9)
 order by at desc, id desc
 limit $10::int
