-- read_attempts: the attempts of an intent, oldest first.
select generation, owner, started_at, ended_at, result, phase, code, message, provider_id, state
  from attempts where intent_id = $1::uuid order by generation
