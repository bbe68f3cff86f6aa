//! PostgreSQL.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use sqlx::{Connection, Executor, PgConnection, Row};

use super::BATCH;
use super::producers::{key, payload};
use super::server::Speech;
use super::shapes::{CLAIM_DELETE, CLAIM_DELETE_QUICK, CLAIM_MARK, End, Shape};

/// Claims a batch: it is due again when nobody has ended it in time.
const CLAIM: &str = "
    WITH next AS MATERIALIZED (
        SELECT id FROM queue WHERE status = 0 AND due_at <= now()
        ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    UPDATE queue SET attempts = queue.attempts + 1, owner = $2, due_at = now() + interval '30 s'
    FROM next WHERE queue.id = next.id
    RETURNING queue.id, queue.event_id, queue.topic, queue.event_type, queue.biz_key,
        queue.payload, queue.headers";

const DELETE: &str = "DELETE FROM queue WHERE id = ANY ($1)";
const MARK: &str = "UPDATE queue SET status = 1, owner = NULL WHERE id = ANY ($1)";

pub(super) struct Postgres;

#[async_trait]
impl Speech for Postgres {
    const SETTINGS: &'static [&'static str] = &[
        "-c",
        "fsync=on",
        "-c",
        "full_page_writes=on",
        "-c",
        "shared_buffers=256MB",
        "-c",
        "max_wal_size=4GB",
        "-c",
        "wal_level=replica",
    ];
    const SHAPES: &'static [Shape] = &[CLAIM_DELETE, CLAIM_DELETE_QUICK, CLAIM_MARK];
    const SALE: &'static str = "CREATE TABLE sale \
        (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, total bigint NOT NULL)";
    const QUEUE: &'static str = "
        CREATE TABLE queue (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            event_id uuid NOT NULL DEFAULT gen_random_uuid(), topic text NOT NULL,
            event_type text NOT NULL, biz_key text, payload text,
            headers text NOT NULL DEFAULT '{}', status smallint NOT NULL DEFAULT 0,
            attempts integer NOT NULL DEFAULT 0, owner text,
            due_at timestamptz NOT NULL DEFAULT now(),
            created_at timestamptz NOT NULL DEFAULT now()
        );
        CREATE INDEX queue_due ON queue (due_at, id) WHERE status = 0";
    const BEHIND: &'static str = ", n, '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), \
        '{}', 1700000000000 + n, 1, 1700000000000 + n";
    const FLUSH: Option<&'static str> = Some("CHECKPOINT");
    const SNAPSHOT: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    const LISTENS: bool = true;

    fn events(into: &str, count: usize, more: &str) -> Vec<String> {
        let payload = payload();
        vec![format!(
            "INSERT INTO {into} SELECT 'order.paid', 'OrderPaid', 'k' || n, '{payload}'{more} \
             FROM generate_series(1, {count}) AS n"
        )]
    }

    fn known(table: &str) -> String {
        format!("VACUUM ANALYZE {table}")
    }

    async fn own(url: &str, shards: Vec<u16>) -> Result<usize> {
        let mut connection = PgConnection::connect(url).await?;
        connection.execute("SET synchronous_commit = off").await?;
        let mut drained = 0;
        for shard in shards {
            drained += drain(&mut connection, i16::try_from(shard)?).await?;
        }
        Ok(drained)
    }

    async fn compete(url: &str, shape: &Shape, left: &AtomicUsize) -> Result<()> {
        let mut connection = PgConnection::connect(url).await?;
        if !shape.sure {
            connection.execute("SET synchronous_commit = off").await?;
        }
        let end = match shape.end {
            End::Delete => DELETE,
            End::Mark => MARK,
        };
        loop {
            let rows = sqlx::query(CLAIM).bind(BATCH as i64).bind("a relay");
            let rows = rows.fetch_all(&mut connection).await?;
            let numbers: Vec<i64> =
                rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
            if numbers.is_empty() {
                return Ok(());
            }
            let ended = sqlx::query(end).bind(&numbers).execute(&mut connection).await?;
            left.fetch_sub(usize::try_from(ended.rows_affected())?, Ordering::SeqCst);
        }
    }

    async fn produce(url: &str, transactions: usize, event: bool) -> Result<()> {
        let mut connection = PgConnection::connect(url).await?;
        for _ in 0..transactions {
            let mut tx = connection.begin().await?;
            let sale = sqlx::query("INSERT INTO sale (total) VALUES ($1)").bind(42i64);
            sale.execute(&mut *tx).await?;
            if event {
                let put = sqlx::query(
                    "INSERT INTO outbox (topic, event_type, biz_key, payload) \
                     VALUES ('order.paid', 'OrderPaid', $1, $2)",
                );
                put.bind(key()).bind(payload()).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }
}

/// Reads and deletes one shard.
async fn drain(connection: &mut PgConnection, shard: i16) -> Result<usize> {
    let (mut cursor, mut drained) = (0i64, 0);
    loop {
        let rows = sqlx::query(
            "SELECT seq, event_id, topic, event_type, biz_key, payload, headers FROM outbox \
             WHERE shard = $1 AND seq > $2 ORDER BY shard, seq LIMIT $3",
        );
        let rows = rows.bind(shard).bind(cursor).bind(BATCH as i64);
        let rows = rows.fetch_all(&mut *connection).await?;
        let numbers = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<i64>>>()?;
        let Some(last) = numbers.last() else { return Ok(drained) };
        cursor = *last;
        let gone = sqlx::query("DELETE FROM outbox WHERE shard = $1 AND seq = ANY ($2)");
        let gone = gone.bind(shard).bind(&numbers).execute(&mut *connection).await?;
        drained += usize::try_from(gone.rows_affected())?;
    }
}
