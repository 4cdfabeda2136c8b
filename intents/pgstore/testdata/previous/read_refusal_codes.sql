-- read_refusal_codes: refusals since $1 by code. One caller's ($2), or everybody's.
select code, count(*) from refusals where at >= $1::timestamptz and ($2::text = '' or caller = $2) group by code
