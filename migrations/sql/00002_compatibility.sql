-- +goose Up
set local lock_timeout = '10s';
set local statement_timeout = '10min';

-- The second fence behind the migrators' lock: a process that was frozen past its lease cannot apply again what another
-- one has applied meanwhile, because the version's row stands in the same transaction.
create unique index goose_db_version_once on goose_db_version (version_id);

-- Which binaries may still work here: those that know at least this migration. A migration that older binaries cannot
-- live with raises it; one that only adds leaves it, so that a rolling update runs both. One row.
create table compatibility (
    id            int primary key check (id = 1),
    oldest_binary bigint not null
);
insert into compatibility values (1, 1);

-- +goose Down
drop table compatibility;
drop index goose_db_version_once;
