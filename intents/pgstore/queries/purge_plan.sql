-- purge_plan: for the rest of this transaction rows are found by index alone, one by one. A purge touches few rows of tables that may be
-- large and that nobody has analyzed yet; left alone, the planner may choose to read one of them from end to end.
select set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)
