-- read_oldest: since when the oldest intent of each channel is due, and unknown. One caller's ($1), or everybody's.
select a.channel, min(a.at) filter (where a.kind = 'due'), min(a.at) filter (where a.kind = 'unknown')
  from agenda a
 where (a.kind = 'unknown' or a.kind = 'due' and a.at <= now())
   and ($1::text = '' or exists (select from intents i where i.id = a.intent_id and i.caller = $1))
 group by a.channel
