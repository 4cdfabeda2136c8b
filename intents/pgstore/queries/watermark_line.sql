-- watermark_line: the first statement of the transaction that moves the watermark. Whoever takes keys in has selected its row for share,
-- and holds a ROW SHARE lock on the table with it, until the end of its transaction: this waits for all of those. The row's own lock would
-- be enough to be right, but share locks on a row overtake an update that waits for it, and under a steady load it would wait for ever. A
-- table's lock is a line: who comes now stands behind.
lock table watermark in exclusive mode
