-- witness_known: what else there is to know of a locked intent: whether a claim was taken over, whether the present one is a takeover's,
-- which sends nothing, and what became of the same evidence before. It follows witness_lock.sql in a statement of its own, because
-- whoever that one waited for may just have written these.
select exists (select from attempts t where t.intent_id = $1::uuid and t.generation = $2::int and t.owner = $3::text and t.state = 'sending'),
       exists (select from agenda a join intents i on i.id = a.intent_id
                where a.intent_id = $1::uuid and a.kind = 'leased' and a.claim_token is null and a.generation = i.generation and i.state = 'sending'),
       (select e.settled from evidence e where e.intent_id = $1::uuid and e.generation = $2::int and e.source = $4::text
           and (e.source = 'late-finisher' or e.result = $5::text) order by e.settled desc limit 1)
