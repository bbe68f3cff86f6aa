//! MySQL and MariaDB: each relay has an account of its own, so that every row tells who changed it.

mod claims;

use std::fmt::Write as _;
use std::time::Duration;

use super::super::deadlock::DEADLOCK;
use super::server::Words;
use super::{Manners, TwoPhase, Watch};

/// What makes a session a producer's: it waits for nothing for longer than a second, which is the
/// least that can be said. A relay that is stopped keeps what it has locked for longer. Its number
/// tells it from others: while a trigger fires, MariaDB shows its maker as the user of a session.
const PRODUCER: &str = "
    SET SESSION innodb_lock_wait_timeout = 1;
    INSERT INTO chaos_producer (id) VALUES (CONNECTION_ID())";

/// Producers that wait for a relay, and which. Whose a lock is, is told by the lock of a table that
/// the same transaction has. What the server names as the thread of a row's lock is whoever moved
/// that lock to another page: a producer, for two relays of which one waits for the other.
const WAITING: Watch = Watch {
    sql: "
        SELECT DISTINCT COALESCE(slow.processlist_info, ''), holder.processlist_user
        FROM performance_schema.data_lock_waits AS waits
        STRAIGHT_JOIN performance_schema.data_locks AS wanted
            ON wanted.engine_transaction_id = waits.requesting_engine_transaction_id
            AND wanted.engine = waits.engine AND wanted.lock_type = 'TABLE'
        STRAIGHT_JOIN performance_schema.threads AS slow ON slow.thread_id = wanted.thread_id
        STRAIGHT_JOIN chaos_producer AS producer ON producer.id = slow.processlist_id
        STRAIGHT_JOIN performance_schema.data_locks AS held
            ON held.engine_transaction_id = waits.blocking_engine_transaction_id
            AND held.engine = waits.engine AND held.lock_type = 'TABLE'
        STRAIGHT_JOIN performance_schema.threads AS holder ON holder.thread_id = held.thread_id
        LEFT JOIN chaos_producer AS other ON other.id = holder.processlist_id
        WHERE other.id IS NULL",
    every: Duration::from_millis(4),
};

/// The same on MariaDB, which shows a copy that is 100 ms old, and would show it for ever to
/// somebody who looks more often. Whoever waits there for the next number of a table waits for one
/// statement at the most, whatever befalls its relay, and is not counted.
const WAITING_MARIADB: Watch = Watch {
    sql: "
        SELECT CONCAT(wanted.lock_mode, ' of ', COALESCE(wanted.lock_index, 'a table'), ': ',
            COALESCE(slow.trx_query, '')), holder.user
        FROM information_schema.innodb_lock_waits AS waits
        JOIN information_schema.innodb_locks AS wanted ON wanted.lock_id = waits.requested_lock_id
        JOIN information_schema.innodb_trx AS slow ON slow.trx_id = waits.requesting_trx_id
        JOIN information_schema.innodb_trx AS fast ON fast.trx_id = waits.blocking_trx_id
        JOIN information_schema.processlist AS holder ON holder.id = fast.trx_mysql_thread_id
        JOIN chaos_producer AS producer ON producer.id = slow.trx_mysql_thread_id
        LEFT JOIN chaos_producer AS other ON other.id = fast.trx_mysql_thread_id
        WHERE other.id IS NULL AND wanted.lock_mode <> 'AUTO_INC'",
    every: Duration::from_millis(110),
};

/// What is written down with each row, and with each lease that is kept. The numbers are not the
/// table's own: MariaDB would lock it for them until the statement that fired the trigger ends. Who
/// owns a row's shard is read from its tally, which whoever moves the row has open: what a trigger
/// reads here is locked, and a settlement waits for no lease.
const NOTES: &str = "
    CREATE TABLE sale (event_id CHAR(36) CHARACTER SET ascii PRIMARY KEY);
    CREATE TABLE chaos_producer (id BIGINT UNSIGNED PRIMARY KEY);
    CREATE TABLE chaos_change (
        number BIGINT UNSIGNED DEFAULT (UUID_SHORT()) PRIMARY KEY,
        event_id TEXT, relay TEXT, owner TEXT
    );
    CREATE PROCEDURE note_row(id CHAR(36), its SMALLINT)
    IF USER() LIKE 'chaos%' THEN
        INSERT INTO chaos_change (event_id, relay, owner)
        SELECT id, SUBSTRING_INDEX(SUBSTRING_INDEX(USER(), '@', 1), '_', -1), tally.owner
        FROM outbox_tally AS tally WHERE tally.shard = its;
    END IF;
    CREATE TRIGGER note_lease AFTER UPDATE ON outbox_lease FOR EACH ROW
    IF NEW.shard >= 0 AND OLD.since = NEW.since THEN
        INSERT INTO chaos_change (relay, owner)
        VALUES (SUBSTRING_INDEX(SUBSTRING_INDEX(USER(), '@', 1), '_', -1), OLD.owner);
    END IF;
";

/// Which changes of which table are noted, by the row before or after, and when. Whoever takes a
/// lease first sets down as unexplained what was in flight under it: no trigger of these servers
/// waits until the lease is taken, so that is left out.
const NOTED: [(&str, &str, &str, &str); 5] = [
    ("outbox", "UPDATE", "OLD", "TRUE"),
    (
        "outbox",
        "DELETE",
        "OLD",
        "NOT EXISTS (SELECT 1 FROM outbox_later AS later WHERE later.shard = OLD.shard \
         AND later.attempts = 1 AND later.seq = OLD.seq AND later.unexplained = 1)",
    ),
    ("outbox_later", "INSERT", "NEW", "NEW.unexplained = 0"),
    (
        "outbox_later",
        "UPDATE",
        "OLD",
        "OLD.unexplained <> NEW.unexplained OR OLD.fence <> NEW.fence",
    ),
    ("outbox_later", "DELETE", "OLD", "TRUE"),
];

const TWO_PHASE: TwoPhase = TwoPhase {
    begin: "XA START '{name}'",
    prepare: "XA END '{name}'; XA PREPARE '{name}'",
    commit: "XA COMMIT '{name}'",
    undo: &["XA END '{name}'", "XA ROLLBACK '{name}'"],
};

/// Returns the words for a server of the family.
pub(super) fn words(version: &str, competes: bool) -> Words {
    let watch = if version.contains("MariaDB") { WAITING_MARIADB } else { WAITING };
    let waited: Option<&[&str]> = Some(&["Lock wait timeout exceeded", DEADLOCK]);
    Words {
        make: &["CREATE DATABASE {name} CHARACTER SET utf8mb4"],
        notes: if competes { claims::NOTES.to_owned() } else { notes() },
        account: &["CREATE USER '{user}'@'%'", "GRANT ALL ON {name}.* TO '{user}'@'%'"],
        producer: PRODUCER,
        watch,
        manners: Manners { producers: 4, begin: "BEGIN", two_phase: Some(TWO_PHASE), waited },
        drop: &["SET SESSION lock_wait_timeout = 60", "DROP DATABASE {name}"],
        accounts: "SELECT user FROM mysql.user WHERE user LIKE '{name}%'",
        forget: "DROP USER '{user}'@'%'",
    }
}

fn notes() -> String {
    let mut notes = NOTES.to_owned();
    for (table, change, row, when) in NOTED {
        let name = format!("note_{table}_{change}").to_lowercase();
        let _ = writeln!(
            notes,
            "CREATE TRIGGER {name} AFTER {change} ON {table} FOR EACH ROW \
             IF {when} THEN CALL note_row({row}.event_id, {row}.shard); END IF;"
        );
    }
    notes
}
