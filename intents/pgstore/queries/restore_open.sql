-- restore_open: open intents of a restored database with an id above $1, lowest first: those of the agenda, and those in claim batches.
-- A page is full while there are more, whatever the agenda and the batches still hold of intents that are settled or gone.
select i.id, i.generation, i.state, i.channel, i.guarantee, i.owner, i.doubt, i.accepted, i.superseded_by is not null,
       i.doubt and i.code = 'restored', case when a.kind = 'due' then a.at end, i.updated_at, i.claimed_at, i.first_used_at,
       (select min(t.started_at) from attempts t where t.intent_id = i.id and t.phase not in ('', 'connect'))
  from (select id from (
               select e.intent_id as id from agenda e join intents x on x.id = e.intent_id
                where e.intent_id > $1::uuid and x.state in ('pending', 'sending') order by e.intent_id limit $2::int) as enlisted
        union
        select id from (
               select x.id from claim_batches b cross join unnest(b.intents) as u (id) join intents x on x.id = u.id
                where x.id > $1::uuid and x.state = 'sending' order by x.id limit $2::int) as claimed) o
  join intents i on i.id = o.id
  left join agenda a on a.intent_id = i.id and a.generation = i.generation
 order by i.id
 limit $2::int
