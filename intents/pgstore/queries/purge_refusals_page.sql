-- purge_refusals_page: the next refusals that are older than the window, oldest first. Nobody needs them for anything else.
select at, id, now() - at, true
  from refusals
 where at <= now() - $1::interval and (at, id) > ($2::timestamptz, $3::uuid)
 order by at, id
 limit $4::int
