-- restore_watermark: moves the watermark to the end of the gap, or leaves it ($1 null), and locks it in any case. It never goes back.
update watermark set acked_to = greatest(acked_to, coalesce($1::timestamptz, acked_to)) where id = 1
returning case when isfinite(acked_to) then acked_to end
