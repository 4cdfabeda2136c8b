-- witness_lock: how an intent stands that somebody has evidence about, held until that is on record and decided upon.
select i.state, i.generation, i.doubt, i.possible_duplicates, i.superseded_by is not null, i.accepted
  from intents i where i.id = $1::uuid for update
