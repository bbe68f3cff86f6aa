-- The relay, and `postbox` at a terminal: the outbox's own tables, and nothing else of yours.
GRANT SELECT, INSERT, DELETE ON {outbox} TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {outbox}_later TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {outbox}_relay TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {outbox}_inbox TO {account};
GRANT SELECT, INSERT, DELETE ON {outbox}_dead TO {account};
-- DROP is what it takes to drop a day of history at once; it reaches no other table.
GRANT SELECT, INSERT, DELETE, DROP ON {outbox}_sent TO {account};
GRANT SELECT, INSERT, UPDATE ON {outbox}_lease TO {account};
GRANT SELECT, UPDATE ON {outbox}_tally TO {account};
GRANT SELECT ON {outbox}_schema TO {account};
GRANT SELECT ON {outbox}_events TO {account};
