-- Which versions were applied. The name is ours, so that it never meets the application's.
CREATE TABLE IF NOT EXISTS {outbox}_schema (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
) STRICT;
