-- Makes later rows due that the last owner had in flight: nobody has them any more.
-- ?1 now.
-- Index: {outbox}_later_out. Locks: the one writer.
UPDATE {outbox}_later INDEXED BY {outbox}_later_out SET due_at = ?1
WHERE unexplained > 0 AND due_at > ?1
