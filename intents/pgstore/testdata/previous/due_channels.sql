-- due_channels: the channels that have something due. It hops from channel to channel through the index and looks for one row of
-- each, so that a long backlog costs no more than a short one.
with recursive hop as (
    (select channel from agenda order by channel limit 1)
    union all
    select (select a.channel from agenda a where a.channel > hop.channel order by a.channel limit 1) from hop where hop.channel is not null
)
select hop.channel
  from hop
 where hop.channel is not null
   and not exists (select from channel_states c where c.channel = hop.channel and c.paused_until > now())
   and exists (select from (values (0), (1), (2)) as p (priority) cross join lateral (
           select from agenda a
            where a.channel = hop.channel and a.kind = 'due' and a.priority = p.priority and a.at <= now()
              and (a.expires_at is null or a.expires_at > now())
            limit 1) due)
