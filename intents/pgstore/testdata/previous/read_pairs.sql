-- read_pairs: the callers and channels of the newest $1 intents, to try a key with that came without them.
select distinct caller, channel from (select caller, channel from intents order by id desc limit $1::int) as newest
