-- Which versions were applied. The name is ours, so that it never meets the application's.
CREATE TABLE IF NOT EXISTS {outbox}_schema (
    version INT NOT NULL PRIMARY KEY,
    applied_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE = InnoDB;
