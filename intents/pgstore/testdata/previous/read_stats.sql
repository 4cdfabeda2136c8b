-- read_stats: intents by channel and state: those created since $2, whose ids are not below $1, and every open one before.
-- One caller's ($3), or everybody's.
with open as (
    select intent_id as id from agenda where intent_id < $1::uuid
    union
    select u.id from claim_batches b cross join unnest(b.intents) as u (id) where u.id < $1::uuid
), counted as (
    select channel, state, possible_duplicates from intents
     where id >= $1::uuid and (created_at >= $2::timestamptz or state in ('pending', 'sending', 'unknown')) and ($3::text = '' or caller = $3)
    union all
    select i.channel, i.state, i.possible_duplicates from open join intents i on i.id = open.id
     where i.state in ('pending', 'sending', 'unknown') and ($3::text = '' or i.caller = $3)
)
select channel, state, count(*), sum(possible_duplicates) from counted group by channel, state order by channel, state
