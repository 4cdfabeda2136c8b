-- pause_channel: pauses a channel, longer each time in a row. Whoever finds the same fault while the pause lasts adds nothing.
insert into channel_states as c (channel, paused_until, code, reason, since, key_scope, pauses)
values ($1::text, now() + least($5::interval, $6::interval), $3::text, $4::text, now(), $2::text, 1)
on conflict (channel) do update
   set paused_until = now() + least($5::interval * power(2, least(c.pauses, 30)), $6::interval),
       code = excluded.code, reason = excluded.reason, key_scope = excluded.key_scope,
       since = case when c.pauses = 0 then now() else c.since end, pauses = c.pauses + 1
 where c.paused_until is null or c.paused_until <= now()
