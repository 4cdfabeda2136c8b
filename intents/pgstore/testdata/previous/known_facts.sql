-- known_facts: what is remembered of facts that could not be taken in as new. It is a statement of its own, after the insert,
-- because the insert's snapshot may be older than the row that it waited for. Contents are read only where meanings differ:
-- the limit keeps the planner from joining them all.
select a.n, (select acked_to from watermark where id = 1), k.revision, k.intent_id, newest.state,
       same.intent_id, same.fingerprint_version, same.fingerprint, same.occurred_at,
       i.state, i.generation, i.owner, i.lease_until > now(), c.recipient, c.content, c.collapse_id
  from unnest($1::bytea[], $2::int[], $3::smallint[], $4::bytea[]) with ordinality as a (fact, revision, fingerprint_version, fingerprint, n)
  left join keys k on k.fact = a.fact
  left join intents newest on newest.id = k.intent_id and k.revision > a.revision
  left join lateral (
       select k.intent_id, k.fingerprint_version, k.fingerprint, k.occurred_at where k.revision = a.revision
       union all
       select o.intent_id, o.fingerprint_version, o.fingerprint, o.occurred_at from keys_older o where o.fact = a.fact and o.revision = a.revision
       ) same on true
  left join intents i on i.id = same.intent_id
  left join lateral (
       select t.recipient, t.content, t.collapse_id from contents t
        where t.intent_id = same.intent_id and (same.fingerprint_version <> a.fingerprint_version or same.fingerprint <> a.fingerprint)
        limit 1
       ) c on true
 order by a.n
