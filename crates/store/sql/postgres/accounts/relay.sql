-- The relay, and `postbox` at a terminal: the outbox's own tables, and nothing else of yours.
-- Tables in a schema of their own need USAGE on it as well.
GRANT SELECT, INSERT, UPDATE, DELETE ON {outbox}, {outbox}_later, {outbox}_relay, {outbox}_inbox
    TO {account};
GRANT SELECT, INSERT, DELETE ON {outbox}_dead, {outbox}_sent TO {account};
GRANT SELECT, INSERT, UPDATE ON {outbox}_lease TO {account};
GRANT SELECT ON {outbox}_schema, {outbox}_events TO {account};
GRANT USAGE ON SEQUENCE {outbox}_seq, {outbox}_later_number TO {account};
