-- session: set on every connection, by a statement and not at start-up, which poolers in between refuse. Custom plans alone: the
-- tables grow from nothing to millions of rows, and a plan made for nothing would be kept. What is worked on is recent, so it is
-- in memory: pages by index cost hardly more than pages in a row.
select set_config('statement_timeout', '20s', false), set_config('lock_timeout', '5s', false),
       set_config('idle_in_transaction_session_timeout', '30s', false), set_config('default_transaction_isolation', 'read committed', false),
       set_config('plan_cache_mode', 'force_custom_plan', false), set_config('jit', 'off', false), set_config('random_page_cost', '1.1', false),
       set_config('TimeZone', 'UTC', false)
