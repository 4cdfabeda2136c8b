-- resume_channel: ends a pause and the row of pauses that it stood in.
update channel_states set paused_until = null, code = '', reason = '', since = now(), pauses = 0
 where channel = $1::text and (paused_until is not null or pauses > 0)
