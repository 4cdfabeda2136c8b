-- evidence_known: whether a late finisher has been heard already. It follows witness_lock.sql, whose wait may have let the
-- earlier try commit.
select settled from evidence where intent_id = $1::uuid and generation = $2::int and source = 'late-finisher'
