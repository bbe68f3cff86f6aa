-- Which versions were applied. The name is ours, so that it never meets the application's.
CREATE TABLE IF NOT EXISTS {outbox}_schema (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
