//! MySQL and MariaDB: one text of every statement serves the family.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

use super::BATCH;
use super::producers::{key, payload};
use super::server::Speech;
use super::shapes::{CLAIM_DELETE, CLAIM_MARK, End, Shape};

/// How many rows one transaction inserts, in thousands.
const THOUSANDS: usize = 20;

/// Reads a batch, which nobody else gets.
const CLAIM: &str = "
    SELECT id, event_id, topic, event_type, biz_key, payload, headers
    FROM queue FORCE INDEX (queue_due) WHERE status = 0 AND due_at <= NOW(6)
    ORDER BY due_at, id LIMIT ? FOR UPDATE SKIP LOCKED";
/// Makes it due again for when nobody has ended it in time.
const LEASE: &str = "UPDATE queue SET attempts = attempts + 1, owner = 'a relay', \
    due_at = NOW(6) + INTERVAL 30 SECOND WHERE id IN";
const DELETE: &str = "DELETE FROM queue WHERE id IN";
const MARK: &str = "UPDATE queue SET status = 1, owner = NULL WHERE id IN";

pub(super) struct MySql;

#[async_trait]
impl Speech for MySql {
    const SETTINGS: &'static [&'static str] = &[
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-flush-method=O_DIRECT",
        "--sync-binlog=1",
        "--innodb-doublewrite=ON",
        "--innodb-buffer-pool-size=256M",
        "--loose-innodb-redo-log-capacity=1G",
        "--loose-innodb-log-file-size=1G",
    ];
    const SHAPES: &'static [Shape] = &[CLAIM_DELETE, CLAIM_MARK];
    const SALE: &'static str =
        "CREATE TABLE sale (id BIGINT AUTO_INCREMENT PRIMARY KEY, total BIGINT NOT NULL)";
    const QUEUE: &'static str = "
        CREATE TABLE queue (
            id BIGINT AUTO_INCREMENT PRIMARY KEY,
            event_id CHAR(36) CHARACTER SET ascii NOT NULL DEFAULT (UUID()),
            topic VARCHAR(255) NOT NULL, event_type VARCHAR(255) NOT NULL, biz_key VARCHAR(255),
            payload LONGTEXT, headers TEXT NOT NULL DEFAULT ('{}'),
            status SMALLINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0,
            owner VARCHAR(64), due_at DATETIME(6) NOT NULL DEFAULT NOW(6),
            created_at DATETIME(6) NOT NULL DEFAULT NOW(6), KEY queue_due (status, due_at, id)
        ) CHARACTER SET utf8mb4";
    const BEHIND: &'static str = ", n, CONCAT('01900000-0000-7000-8000-', \
        LPAD(LOWER(HEX(n)), 12, '0')), '{}', 1700000000000 + n, 1, 1700000000000 + n";
    const FLUSH: Option<&'static str> = None;
    const SNAPSHOT: &'static str =
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION READ ONLY";
    const LISTENS: bool = false;

    fn events(into: &str, count: usize, more: &str) -> Vec<String> {
        let payload = payload();
        let part = |thousand: usize| {
            format!(
                "INSERT INTO {into} WITH RECURSIVE \
                 ones (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ones WHERE n < 1000), \
                 numbers (n) AS (SELECT 1000 * ({thousand} + many.n - 1) + ones.n \
                    FROM ones AS many CROSS JOIN ones WHERE many.n <= {THOUSANDS}) \
                 SELECT 'order.paid', 'OrderPaid', CONCAT('k', n), '{payload}'{more} \
                 FROM numbers WHERE n <= {count}"
            )
        };
        (0..count.div_ceil(1000)).step_by(THOUSANDS).map(part).collect()
    }

    fn known(table: &str) -> String {
        format!("ANALYZE TABLE {table}")
    }

    async fn own(url: &str, shards: Vec<u16>) -> Result<usize> {
        let mut connection = open(url).await?;
        let mut drained = 0;
        for shard in shards {
            drained += drain(&mut connection, shard).await?;
        }
        Ok(drained)
    }

    async fn compete(url: &str, shape: &Shape, left: &AtomicUsize) -> Result<()> {
        let mut connection = open(url).await?;
        let end = match shape.end {
            End::Delete => DELETE,
            End::Mark => MARK,
        };
        loop {
            let mut tx = connection.begin().await?;
            let rows = sqlx::query(CLAIM).bind(BATCH as i64).fetch_all(&mut *tx).await?;
            let numbers = numbers(&rows)?;
            if numbers.is_empty() {
                return Ok(());
            }
            named(&mut tx, LEASE, &numbers).await?;
            tx.commit().await?;
            left.fetch_sub(named(&mut connection, end, &numbers).await?, Ordering::SeqCst);
        }
    }

    async fn produce(url: &str, transactions: usize, event: bool) -> Result<()> {
        let mut connection = open(url).await?;
        for _ in 0..transactions {
            let mut tx = connection.begin().await?;
            let sale = sqlx::query("INSERT INTO sale (total) VALUES (?)").bind(42i64);
            sale.execute(&mut *tx).await?;
            if event {
                let put = sqlx::query(
                    "INSERT INTO outbox (topic, event_type, biz_key, payload) \
                     VALUES ('order.paid', 'OrderPaid', ?, ?)",
                );
                put.bind(key()).bind(payload()).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }
}

async fn open(url: &str) -> Result<MySqlConnection> {
    let mut connection = MySqlConnection::connect(url).await?;
    connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
    Ok(connection)
}

fn numbers(rows: &[sqlx::mysql::MySqlRow]) -> Result<Vec<i64>> {
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?)
}

/// Runs a statement that ends with the numbers of rows. There is one text for every batch, so
/// that it is prepared once: a short batch names its last row again.
async fn named(
    connection: &mut MySqlConnection,
    statement: &str,
    numbers: &[i64],
) -> Result<usize> {
    let Some(last) = numbers.last() else { return Ok(0) };
    let marks = vec!["?"; BATCH].join(", ");
    let mut query = sqlx::query(AssertSqlSafe(format!("{statement} ({marks})")));
    for at in 0..BATCH {
        query = query.bind(numbers.get(at).unwrap_or(last));
    }
    Ok(usize::try_from(query.execute(connection).await?.rows_affected())?)
}

/// Reads and deletes one shard.
async fn drain(connection: &mut MySqlConnection, shard: u16) -> Result<usize> {
    let (mut cursor, mut drained) = (0i64, 0);
    loop {
        let rows = sqlx::query(
            "SELECT seq, event_id, topic, event_type, biz_key, payload, headers FROM outbox \
             WHERE shard = ? AND seq > ? ORDER BY seq LIMIT ?",
        );
        let rows = rows.bind(shard).bind(cursor).bind(BATCH as i64);
        let numbers = numbers(&rows.fetch_all(&mut *connection).await?)?;
        let Some(last) = numbers.last() else { return Ok(drained) };
        cursor = *last;
        let gone = format!("DELETE FROM outbox WHERE shard = {shard} AND seq IN");
        drained += named(connection, &gone, &numbers).await?;
    }
}
