-- read_evidence: what was learned about an intent's effect, oldest first.
select at, source, generation, result, code, message, provider_id, settled from evidence where intent_id = $1::uuid order by id
