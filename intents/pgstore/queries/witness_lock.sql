-- witness_lock: how an intent stands that a late finisher speaks of, held until its evidence is on record and decided upon; and
-- whether this evidence is on record from an earlier try already.
select i.state, i.generation, i.doubt, i.possible_duplicates, i.superseded_by is not null,
       exists (select from attempts t where t.intent_id = i.id and t.generation = $2::int and t.owner = $3::text and t.state = 'sending')
  from intents i where i.id = $1::uuid for update of i
