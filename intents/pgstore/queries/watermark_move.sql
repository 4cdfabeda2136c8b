-- watermark_move: moves the watermark on, never back. now() is the transaction's beginning, before anybody was waited for.
update watermark set acked_to = greatest(acked_to, now() - $1::interval) where id = 1 returning acked_to, now()
