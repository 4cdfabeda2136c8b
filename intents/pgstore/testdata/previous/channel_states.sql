-- channel_states: what the dispatchers share about channels. No instant: paused until resumed.
select channel, coalesce(paused_until > now(), false), case when isfinite(paused_until) then paused_until end, code, reason, since, key_scope
  from channel_states order by channel
