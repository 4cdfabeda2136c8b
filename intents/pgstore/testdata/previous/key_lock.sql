-- key_lock: the newest revision of a fact; revisions of one fact are admitted one after the other.
select revision from keys where fact = $1::bytea for update
