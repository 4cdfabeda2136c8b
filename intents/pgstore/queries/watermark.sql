-- watermark: where it is, null where it never was moved, and the clock that it is measured by.
select nullif(acked_to, '-infinity'), now() from watermark where id = 1
