-- erase_lock: locks intents of a recipient that is to be forgotten, and waits for whoever is changing one of them.
select i.id, i.generation, i.state, i.doubt, i.channel
  from intents i
 where i.id = any($1::uuid[]) and i.recipient_hash = any($2::bytea[])
 order by i.id
   for update of i
