-- erase_content: forgets what locked intents say and to whom: recipient, content and rendered bytes, labels, and what providers wrote,
-- which may name a person in words of their own. Codes, times, the provider's ids and the keyed hashes stay. It answers how many
-- intents lost something.
with forgotten as (
    delete from contents where intent_id = any($1::uuid[]) returning intent_id as id
), attempted as (
    update attempts set message = '' where intent_id = any($1::uuid[]) and message <> '' returning intent_id as id
), heard as (
    update evidence set message = '' where intent_id = any($1::uuid[]) and message <> '' returning intent_id as id
), plain as (
    update intents i
       set labels = null, message = ''
      from unnest($1::uuid[], $2::int[], $3::text[]) as e (id, generation, state)
     where i.id = e.id and i.generation = e.generation and i.state = e.state and (i.labels is not null or i.message <> '')
    returning i.id
)
select count(*) from (
       select id from forgotten union select id from attempted union select id from heard union select id from plain) as changed
