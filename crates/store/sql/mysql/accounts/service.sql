-- Your service, beside its rights on its own tables: it puts events down and takes events in. It
-- can neither read nor change what it has put down, nor choose a number.
GRANT INSERT (event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at)
    ON {outbox} TO {account};
GRANT INSERT (event_id, topic, event_type, biz_key, payload, payload_bytes, headers, created_at,
    due_at, moved_at) ON {outbox}_later TO {account};
GRANT SELECT, INSERT, UPDATE ON {outbox}_inbox TO {account};
