-- +goose Up
set local lock_timeout = '10s';
set local statement_timeout = '10min';

-- What people did to the data with a command: who, what, why and from where, in the transaction that did it. A run that works in
-- batches leaves one row for each. Recipients stand here as their keyed hashes alone.
create table audit (
    id      bigint generated always as identity primary key,
    run     uuid not null,                          -- of the command
    at      timestamptz not null default now(),
    what    text not null,
    actor   text not null,
    reason  text not null,
    place   text not null,                          -- the host that it was done from
    targets bytea[] not null,                       -- whom it was about, hashed; empty: nobody in particular
    intents bigint not null,                        -- how many it changed
    detail  jsonb not null
);

-- Append-only, also for those who may write every other table.
-- +goose StatementBegin
create function audit_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'audit is append-only';
end $$;
-- +goose StatementEnd
create trigger append_only before update or delete or truncate on audit for each statement execute function audit_is_append_only();

-- +goose Down
drop table audit;
drop function audit_is_append_only();
