-- The relay, and `postbox` at a terminal: the outbox's own tables, and nothing else of yours.
-- Tables in a schema of their own need USAGE on it as well.
GRANT SELECT, INSERT, UPDATE, DELETE ON {outbox}, {outbox}_later, {outbox}_relay, {outbox}_inbox
    TO {account};
GRANT SELECT, INSERT, DELETE ON {outbox}_dead, {outbox}_sent TO {account};
GRANT TRUNCATE ON {outbox}_sent_0, {outbox}_sent_1, {outbox}_sent_2, {outbox}_sent_3,
    {outbox}_sent_4, {outbox}_sent_5, {outbox}_sent_6, {outbox}_sent_7,
    {outbox}_sent_8, {outbox}_sent_9, {outbox}_sent_a, {outbox}_sent_b,
    {outbox}_sent_c, {outbox}_sent_d, {outbox}_sent_e, {outbox}_sent_f
    TO {account};
GRANT SELECT, INSERT, UPDATE ON {outbox}_lease TO {account};
GRANT SELECT, UPDATE ON {outbox}_tally TO {account};
GRANT SELECT ON {outbox}_schema, {outbox}_events TO {account};
GRANT USAGE ON SEQUENCE {outbox}_seq, {outbox}_later_number TO {account};
