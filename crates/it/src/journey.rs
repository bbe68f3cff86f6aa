//! A whole journey: from transactions in a database, by the real relay and a real broker, to
//! effects in a consumer's own database, with whatever can break on the way breaking.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use broker::manner::Subscription;
use event::{Event, Feed};
use futures_util::future::BoxFuture;
use postbox::{Consumer, Failure};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Executor, SqliteConnection, SqlitePool};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::instance::Instance;
use crate::process::{Process, Signal};
use crate::quay::Quay;
use crate::site::{Rules, Site};

/// How long the world may take to bring the next part of the events.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often the effects are counted.
const LOOK: Duration = Duration::from_millis(50);
/// The consumer group.
pub const GROUP: &str = "stock";

/// How far, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Journey {
    /// The server of the producer's database.
    pub database: &'static str,
    /// How many events.
    pub events: usize,
    /// Over how many keys.
    pub keys: usize,
}

impl Journey {
    /// Goes all the way while the relay is killed twice and the broker once, and the consumer once
    /// where its group stays in order then; fails if the effects are not exactly those of the
    /// events, or those of a key out of order.
    pub async fn go(&self, quay: &dyn Quay) -> Result<()> {
        let server = Instance::start(self.database)?;
        let site = Arc::new(Site::on(&server.url, PATIENCE).await?);
        let topic = quay.topic(GROUP).await?;
        let stock = Stock::new().await?;
        let rules = Rules { lease: "6s", timeout: "2500ms", ..Rules::default() };
        let sink = quay.lines();
        let relay = |name: &str| site.relay_to(name, &sink, "*", &rules);

        let producing = self.produce(&site, &topic);
        let mut consumer = stock.consume(feed(quay, &topic).await?);
        let mut first = relay("first")?;
        stock.reach(self.events / 5, &mut first).await?;
        first.signal(Signal::KILL)?;

        let mut second = relay("second")?;
        stock.reach(self.events * 2 / 5, &mut second).await?;
        quay.restart().await?;

        stock.reach(self.events * 3 / 5, &mut second).await?;
        second.signal(Signal::KILL)?;
        if quay.traits().ordered {
            consumer.abort();
            consumer = stock.consume(feed(quay, &topic).await?);
        }

        let mut third = relay("third")?;
        stock.reach(self.events, &mut third).await?;
        let put = producing.await??;
        let sent = self.events as u64;
        let counts = site.until("all is sent", PATIENCE, |counts| counts.sent == sent).await?;
        ensure!(counts.dead == 0 && counts.pending() == 0, "{counts:?}");
        ensure!(!consumer.is_finished(), "the consumer gave up");
        consumer.abort();
        stock.verify(&put).await
    }

    /// Puts the events, in order per key, while relays come and go.
    fn produce(&self, site: &Arc<Site>, topic: &str) -> JoinHandle<Result<Vec<Event>>> {
        let (site, topic) = (site.clone(), topic.to_owned());
        let Journey { events, keys, .. } = *self;
        tokio::spawn(async move {
            let event = |n| {
                let event = Event::new(topic.as_str(), "OrderPaid", format!("{{\"n\":{n}}}"));
                event.key(format!("k{}", n % keys))
            };
            let all: Vec<Event> = (0..events).map(event).collect();
            for part in all.chunks(100) {
                site.outbox.put(part, None).await?;
            }
            Ok(all)
        })
    }
}

async fn feed(quay: &dyn Quay, topic: &str) -> Result<Arc<dyn Feed>> {
    let lease = Duration::from_secs(15);
    quay.feed(Subscription { lease, ..Subscription::new(GROUP, &[topic]) }).await
}

/// The consumer's own database: what was done, in the order in which it was done.
struct Stock {
    pool: SqlitePool,
    _folder: TempDir,
}

impl Stock {
    async fn new() -> Result<Stock> {
        let folder = tempfile::tempdir()?;
        let file: PathBuf = folder.path().join("stock.sqlite3");
        postbox::migrate(&format!("sqlite:{}", file.display())).await?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .busy_timeout(Duration::from_secs(30))
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal);
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        // Nothing here keeps an effect from being done twice: that is what is asked.
        pool.execute(
            "CREATE TABLE effect (place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, \
             key TEXT NOT NULL)",
        )
        .await?;
        Ok(Stock { pool, _folder: folder })
    }

    /// Takes events in until it is aborted, which is as sudden as a crash.
    fn consume(&self, feed: Arc<dyn Feed>) -> JoinHandle<Result<(), postbox::Error>> {
        let consumer = Consumer::new(feed, self.pool.clone(), GROUP).lease(Duration::from_secs(15));
        tokio::spawn(consumer.run(effect, std::future::pending()))
    }

    async fn count(&self) -> Result<usize> {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM effect").fetch_one(&self.pool).await?;
        Ok(usize::try_from(count)?)
    }

    /// Waits until so many effects are there.
    async fn reach(&self, wanted: usize, relay: &mut Process) -> Result<()> {
        let (mut best, mut since) = (0, Instant::now());
        loop {
            let count = self.count().await?;
            if count >= wanted {
                return Ok(());
            }
            if count > best {
                (best, since) = (count, Instant::now());
            }
            let stuck = since.elapsed() > PATIENCE || relay.has_ended()?;
            ensure!(!stuck, "{count} of {wanted} effects, and no more:\n{}", relay.log());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Checks that each event had one effect, and those of a key in order.
    async fn verify(&self, put: &[Event]) -> Result<()> {
        let done: Vec<(String, String)> =
            sqlx::query_as("SELECT id, key FROM effect ORDER BY place")
                .fetch_all(&self.pool)
                .await?;
        ensure!(done.len() == put.len(), "{} effects of {} events", done.len(), put.len());
        let mut lines: HashMap<&str, Vec<&str>> = HashMap::new();
        for (id, key) in &done {
            lines.entry(key).or_default().push(id);
        }
        let ids: Vec<String> = put.iter().map(|event| event.id.to_string()).collect();
        let mut wanted: HashMap<&str, Vec<&str>> = HashMap::new();
        for (event, id) in put.iter().zip(&ids) {
            let key = event.key.as_deref().context("every event here has a key")?;
            wanted.entry(key).or_default().push(id);
        }
        let number = |id: &&str| ids.iter().position(|other| other == id);
        for (key, line) in &wanted {
            let had = lines.get(key).context("a key had no effect at all")?;
            ensure!(
                had == line,
                "the events of {key} had their effects in the order {:?}",
                had.iter().map(number).collect::<Option<Vec<_>>>()
            );
        }
        Ok(())
    }
}

/// Does the work of one event.
fn effect<'a>(
    tx: &'a mut SqliteConnection,
    event: &'a Event,
) -> BoxFuture<'a, Result<(), Failure>> {
    Box::pin(async move {
        let effect = sqlx::query("INSERT INTO effect (id, key) VALUES (?, ?)");
        effect.bind(event.id.to_string()).bind(&event.key).execute(tx).await?;
        Ok(())
    })
}
