-- restore_idle: whether anybody works on this database: sessions of dispatchers, and leases that stand by this clock. In a backup that
-- was restored within minutes the leases may be the backup's own.
select now(), (select created_at from intents order by id desc limit 1),
       array(select coalesce(host(client_addr), 'this host') || coalesce(' since ' || to_char(backend_start, 'HH24:MI:SS'), '') from pg_stat_activity
              where datname = current_database() and application_name = 'onebell' and pid <> pg_backend_pid()),
       array(select distinct owner from (
             select owner, lease_until from duties
             union all
             select owner, lease_until from claim_batches
             union all
             select i.owner, i.lease_until from agenda a join intents i on i.id = a.intent_id
              where a.kind = 'leased' and a.at > now() and i.state = 'sending') as held
              where lease_until > now() order by owner),
       (select max(lease_until) from (
             select lease_until from duties
             union all
             select lease_until from claim_batches
             union all
             select at from agenda where kind = 'leased') as held)
