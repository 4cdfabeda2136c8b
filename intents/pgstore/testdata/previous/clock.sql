-- clock: the database's clock.
select clock_timestamp()
