-- +goose Up
set local lock_timeout = '10s';
set local statement_timeout = '10min';

-- Keys are forgotten by their facts' time. The fact is part of the index because many facts may have one time (midnight): a purge goes on
-- exactly behind the last row that it looked at. Admission writes it, settling does not.
create index keys_by_time on keys (occurred_at, fact);

-- +goose Down
drop index keys_by_time;
