-- purge_refusals: forgets refusals.
delete from refusals where id = any($1::uuid[]) and at <= now() - $2::interval
