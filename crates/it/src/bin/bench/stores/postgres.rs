//! PostgreSQL with a server of its own, which does not lie about the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use it::instance::Instance;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use store::Setup;
use tokio::task::JoinSet;

use super::bed::Bed;
use super::producers::{self, TRANSACTIONS};
use super::shapes::{self, Shape};
use super::{BATCH, WIDTH};

/// As a server is set up that keeps what it has committed.
const SETTINGS: &[&str] = &[
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

pub(super) struct Server {
    instance: Instance,
}

impl Server {
    pub(super) async fn start(name: &str) -> Result<Server> {
        let mut instance = Instance::start_with(name, SETTINGS)?;
        while PgConnection::connect(&instance.url).await.is_err() {
            instance.lives()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Server { instance })
    }

    /// Makes a database.
    async fn database(&self) -> Result<String> {
        let name = format!("bench_{:012x}", fastrand::u64(..1 << 48));
        let mut root = PgConnection::connect(&self.instance.url).await?;
        root.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        let (base, _) = self.instance.url.rsplit_once('/').context("a url with a database")?;
        Ok(format!("{base}/{name}"))
    }
}

async fn run(url: &str, sql: String) -> Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    connection.close().await?;
    Ok(())
}

/// Returns a SELECT of so many events, with further columns.
fn events(count: usize, more: &str) -> String {
    let payload = producers::payload();
    format!(
        "SELECT 'order.paid', 'OrderPaid', 'k' || n, '{payload}'{more} \
         FROM generate_series(1, {count}) AS n"
    )
}

#[async_trait]
impl Bed for Server {
    fn width(&self) -> usize {
        WIDTH
    }

    fn shapes(&self) -> &'static [Shape] {
        shapes::POSTGRES
    }

    async fn outbox(&self, events: usize, behind: usize) -> Result<String> {
        let url = self.database().await?;
        let outbox = store::open(&Setup::new(&*url)).await?;
        outbox.migrate().await?;
        outbox.close().await;
        run(&url, producers::SALE.into()).await?;
        if behind > 0 {
            let more = ", n, '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'), '{}', \
                        1700000000000 + n, 1, 1700000000000 + n";
            let rows = self::events(behind, more);
            let into = "INSERT INTO outbox_sent (topic, event_type, biz_key, payload, seq, \
                        event_id, headers, created_at, attempts, sent_at)";
            run(&url, format!("{into} {rows}")).await?;
            run(&url, "VACUUM ANALYZE outbox_sent".into()).await?;
        }
        self.fill(&url, events).await?;
        Ok(url)
    }

    async fn fill(&self, url: &str, count: usize) -> Result<()> {
        if count > 0 {
            let into = "INSERT INTO outbox (topic, event_type, biz_key, payload)";
            run(url, format!("{into} {}", events(count, ""))).await?;
        }
        run(url, "CHECKPOINT".into()).await
    }

    async fn raw(&self, url: &str, events: usize) -> Result<f64> {
        let start = Instant::now();
        let mut loops = JoinSet::new();
        for shards in 0..WIDTH {
            let url = url.to_owned();
            loops.spawn(async move {
                let mut connection = PgConnection::connect(&url).await?;
                connection.execute("SET synchronous_commit = off").await?;
                let mut drained = 0;
                for shard in (0..16i16).filter(|shard| *shard as usize % WIDTH == shards) {
                    drained += own(&mut connection, shard).await?;
                }
                anyhow::Ok(drained)
            });
        }
        let mut drained = 0;
        while let Some(ended) = loops.join_next().await {
            drained += ended??;
        }
        ensure!(drained == events, "{drained} of {events} rows were drained");
        Ok(events as f64 / start.elapsed().as_secs_f64())
    }

    async fn shape(&self, shape: &Shape, count: usize) -> Result<f64> {
        let url = self.database().await?;
        run(&url, shapes::TABLE.into()).await?;
        let into = "INSERT INTO queue (topic, event_type, biz_key, payload)";
        run(&url, format!("{into} {}", events(count, ""))).await?;
        run(&url, "VACUUM ANALYZE queue".into()).await?;
        run(&url, "CHECKPOINT".into()).await?;
        let (start, left) = (Instant::now(), Arc::new(AtomicUsize::new(count)));
        let mut loops = JoinSet::new();
        for _ in 0..WIDTH {
            let (url, end, sure, left) = (url.clone(), shape.end, shape.sure, left.clone());
            loops.spawn(async move { compete(&url, end, sure, &left).await });
        }
        while let Some(ended) = loops.join_next().await {
            ended??;
        }
        let rate = count as f64 / start.elapsed().as_secs_f64();
        ensure!(left.load(Ordering::SeqCst) == 0, "rows were left, or ended twice");
        Ok(rate)
    }

    async fn produce(&self, url: &str, event: bool) -> Result<f64> {
        let mut crew = JoinSet::new();
        let start = Instant::now();
        for _ in 0..WIDTH {
            let url = url.to_owned();
            crew.spawn(async move {
                let mut connection = PgConnection::connect(&url).await?;
                for _ in 0..TRANSACTIONS / WIDTH {
                    let mut tx = connection.begin().await?;
                    sqlx::query("INSERT INTO sale (total) VALUES ($1)")
                        .bind(42i64)
                        .execute(&mut *tx)
                        .await?;
                    if event {
                        let put = sqlx::query(
                            "INSERT INTO outbox (topic, event_type, biz_key, payload) \
                             VALUES ('order.paid', 'OrderPaid', $1, $2)",
                        );
                        let key = fastrand::u32(..1000).to_string();
                        put.bind(key).bind(producers::payload()).execute(&mut *tx).await?;
                    }
                    tx.commit().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = crew.join_next().await {
            ended??;
        }
        Ok(TRANSACTIONS as f64 / start.elapsed().as_secs_f64())
    }
}

/// Reads and deletes one shard.
async fn own(connection: &mut PgConnection, shard: i16) -> Result<usize> {
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

/// Claims and ends rows until there are none.
async fn compete(url: &str, end: &'static str, sure: bool, left: &AtomicUsize) -> Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    if !sure {
        connection.execute("SET synchronous_commit = off").await?;
    }
    loop {
        let rows = sqlx::query(shapes::CLAIM).bind(BATCH as i64).bind("a relay");
        let rows = rows.fetch_all(&mut connection).await?;
        let numbers = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<i64>>>()?;
        if numbers.is_empty() {
            return Ok(());
        }
        let ended = sqlx::query(end).bind(&numbers).execute(&mut connection).await?;
        left.fetch_sub(usize::try_from(ended.rows_affected())?, Ordering::SeqCst);
    }
}
