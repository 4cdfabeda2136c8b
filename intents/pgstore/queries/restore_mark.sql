-- restore_mark: marks open intents of a restored database as what they are: perhaps sent. The generation moves on, so that whoever claimed
-- one before, in what the backup knows or after it, can write nothing any more. An attempt that the backup has on the wire goes on record. Its row
-- does not say 'sending', as a takeover's does: what its owner knows says nothing of the attempts that the gap swallowed.
-- note_changes.sql follows.
with marked as (
    update intents i
       set state = m.to_state, generation = i.generation + 1, owner = '', lease_until = null, updated_at = now(),
           doubt = m.to_state <> 'succeeded', first_used_at = case when m.to_state = 'succeeded' then i.first_used_at else m.first_used_at end,
           possible_duplicates = i.possible_duplicates + (m.to_state = 'pending')::int,
           code = case when m.to_state = 'succeeded' then 'evidence' else 'restored' end,
           message = case m.to_state when 'succeeded' then 'an attempt was accepted, as evidence says'
                                     when 'pending' then 'the database was restored from a backup: it may have been sent since; it is sent under the same key, while the provider remembers that'
                                     else 'the database was restored from a backup: it may have been sent since' end
      from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::timestamptz[], $6::text[]) as m (id, generation, from_state, to_state, first_used_at, owner)
     where i.id = m.id and i.generation = m.generation and i.state = m.from_state
    returning i.id, i.generation, m.from_state, i.state, m.owner, i.claimed_at
), attempted as (
    insert into attempts (intent_id, generation, owner, started_at, ended_at, result, phase, code, message, provider_id, state)
    select id, generation - 1, owner, coalesce(claimed_at, now()), now(), 'unknown', '', 'restored', 'the backup was taken while this attempt went on', '', state
      from marked where from_state = 'sending'
    on conflict do nothing
)
select id, generation, from_state, state from marked
