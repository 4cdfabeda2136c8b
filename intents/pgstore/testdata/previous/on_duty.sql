-- on_duty: takes or renews a duty; no row while another holds it.
insert into duties as d (name, owner, lease_until) values ($1::text, $2::text, now() + $3::interval)
on conflict (name) do update set owner = excluded.owner, lease_until = excluded.lease_until
 where d.owner = excluded.owner or d.lease_until <= now()
returning true
