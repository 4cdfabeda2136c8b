-- purge_keys_lock: locks keys, so that no revision of their facts is admitted before they are gone. It passes over keys that somebody is
-- at, and the next round comes to them. What it returns is looked at by purge_keys.sql, whose snapshot is younger than the locks.
select fact from keys where fact = any($1::bytea[]) order by fact for update skip locked
