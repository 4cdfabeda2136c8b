-- server: whether this server can do the work.
select current_setting('server_version_num')::int, current_setting('transaction_read_only')::bool, to_regclass('agenda') is not null
