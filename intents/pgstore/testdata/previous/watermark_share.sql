-- watermark_share: keeps the watermark where it is until the transaction ends, and says whether a fact of that time is behind it.
select $1::timestamptz <= acked_to from watermark where id = 1 for share
