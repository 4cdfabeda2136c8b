-- lock_patience: how long the rest of this transaction waits for a lock, in milliseconds.
select set_config('lock_timeout', $1::text, true)
