//! A consumer: from a feed into the application's own database, each event once.
//!
//! For each delivery: a transaction is begun, the event is taken in, the application's work is done
//! in the same transaction, it is committed, and only then is the broker told. It never writes to
//! the producer's database, and never keeps an event of its own.

mod database;
mod failure;
mod lines;
mod patience;
mod rest;
mod shift;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use event::{Backoff, Event, Feed, Witness};
use futures_util::future::BoxFuture;
use sqlx::Pool;

use self::patience::Patience;
use self::shift::Shift;
use crate::Error;
use crate::outbox::Outbox;
use crate::tx::Tx;

pub use self::database::Database;
pub use self::failure::Failure;

/// Joins a feed, a consumer group and a database.
///
/// ```no_run
/// # use std::sync::Arc;
/// # async fn consume(feed: Arc<dyn postbox::Feed>) -> anyhow::Result<()> {
/// let pool = sqlx::SqlitePool::connect("sqlite:stock.sqlite3").await?;
/// let consumer = postbox::Consumer::new(feed, pool, "stock");
/// let stop = async {
///     let _ = tokio::signal::ctrl_c().await;
/// };
/// consumer
///     .run(
///         |tx, event| {
///             Box::pin(async move {
///                 let reserve = "UPDATE stock SET reserved = reserved + 1 WHERE item = ?";
///                 sqlx::query(reserve).bind(&event.key).execute(tx).await?;
///                 Ok(())
///             })
///         },
///         stop,
///     )
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Consumer<DB: Database>
where
    DB::Connection: Tx,
{
    feed: Arc<dyn Feed>,
    pool: Pool<DB>,
    group: String,
    outbox: Option<Outbox>,
    at_once: usize,
    lease: Duration,
    drain: Duration,
    patience: Patience,
    witness: Option<Arc<dyn Witness>>,
}

impl<DB: Database> Consumer<DB>
where
    DB::Connection: Tx,
{
    /// Makes a consumer with the usual manners: 8 events at once, 16 attempts whose waits double
    /// from 1 s to 5 min, leases of 60 s, 30 s to finish what is in hand. The group's memory is
    /// beside the tables of the outbox `outbox`.
    pub fn new(feed: Arc<dyn Feed>, pool: Pool<DB>, group: impl Into<String>) -> Consumer<DB> {
        let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };
        Consumer {
            feed,
            pool,
            group: group.into(),
            outbox: None,
            at_once: 8,
            lease: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            patience: Patience::new(16, backoff),
            witness: None,
        }
    }

    /// Remembers in the inbox beside another outbox.
    #[must_use]
    pub fn beside(mut self, outbox: Outbox) -> Self {
        self.outbox = Some(outbox);
        self
    }

    /// Works on so many events at once; those of one key go one after another all the same.
    #[must_use]
    pub fn at_once(mut self, count: usize) -> Self {
        self.at_once = count.max(1);
        self
    }

    /// Says how long the feed leaves a delivery with its holder, as the feed was told. Work that
    /// takes longer is extended every third of it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_millis(3));
        self
    }

    /// Says how often the work may fail before the event is dead, and how long to wait in between.
    #[must_use]
    pub fn patience(mut self, attempts: u32, backoff: Backoff) -> Self {
        self.patience = Patience::new(attempts, backoff);
        self
    }

    /// Says how long what is in hand may take when the consumer stops.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Tells whoever listens what became of each delivery.
    #[must_use]
    pub fn witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Takes events in until `stop` is ready, then finishes what is in hand and leaves the group.
    ///
    /// The work is given the connection of the open transaction. What it returns decides: `Ok`
    /// commits, an error rolls back, and [`Failure`] says what then. It is an error of `run` that
    /// the database is not fit for an inbox.
    #[allow(clippy::manual_async_fn, reason = "its future can be spawned, which this says")]
    pub fn run<W>(
        self,
        work: W,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), Error>> + Send
    where
        W: for<'a> Fn(&'a mut DB::Connection, &'a Event) -> BoxFuture<'a, Result<(), Failure>>
            + Send
            + Sync,
    {
        async move {
            let feed = self.feed.clone();
            let end = Box::pin(Shift::new(self, work).run(stop)).await;
            feed.close().await;
            end
        }
    }
}
