//! A server of its own, which does not lie about the disk. What servers differ in is a [`Speech`].

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use it::instance::Instance;
use it::session::Session;
use store::{Setup, Strategy};
use tokio::task::JoinSet;

use super::WIDTH;
use super::bed::Bed;
use super::producers::TRANSACTIONS;
use super::shapes::Shape;

/// The columns of an event as its producer writes them.
const EVENT: &str = "topic, event_type, biz_key, payload";
/// The columns that a sent row has besides.
const SENT: &str = "seq, event_id, headers, created_at, attempts, sent_at";

/// From how many new rows on the server looks at a table by itself.
const MANY: usize = 1_000_000;

/// How many shards an outbox has.
const SHARDS: u16 = 16;

/// Statements and loops of one kind of server.
#[async_trait]
pub(super) trait Speech: Send + Sync + 'static {
    /// Arguments of a server that keeps what it has committed.
    const SETTINGS: &'static [&'static str];
    /// Which shapes can be tried.
    const SHAPES: &'static [Shape];
    /// Makes the business table.
    const SALE: &'static str;
    /// Makes the table of every shape, as large as ours.
    const QUEUE: &'static str;
    /// The values of the further columns of a sent row, by its number `n`.
    const BEHIND: &'static str;
    /// Has the server write down what it will have to, where it can be asked to.
    const FLUSH: Option<&'static str>;
    /// Begins a transaction that sees everything as it is when it first looks.
    const SNAPSHOT: &'static str;
    /// Whether it can say what was committed to whoever listens.
    const LISTENS: bool;

    /// Returns statements that insert so many events into columns of a table, with further values
    /// of the number `n`.
    fn events(into: &str, count: usize, more: &str) -> Vec<String>;
    /// Returns what makes the server know a table that was just filled.
    fn known(table: &str) -> String;
    /// Reads and deletes everything of some shards by primary key. Returns how many rows.
    async fn own(url: &str, shards: Vec<u16>) -> Result<usize>;
    /// Claims and ends rows until there are none, and counts them down.
    async fn compete(url: &str, shape: &Shape, left: &AtomicUsize) -> Result<()>;
    /// Commits so many business rows, each in its own transaction, with or without an event.
    async fn produce(url: &str, transactions: usize, event: bool) -> Result<()>;
}

pub(super) struct Server<S> {
    instance: Instance,
    shapes: &'static [Shape],
    speech: PhantomData<S>,
}

impl<S: Speech> Server<S> {
    pub(super) async fn start(name: &str) -> Result<Server<S>> {
        let mut instance = Instance::start_with(name, S::SETTINGS)?;
        while Session::open(&instance.url).await.is_err() {
            instance.lives()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Server { instance, shapes: S::SHAPES, speech: PhantomData })
    }

    /// Leaves out what this version of the server cannot do.
    pub(super) fn without_shapes(self) -> Server<S> {
        Server { shapes: &[], ..self }
    }

    /// Makes a database.
    async fn database(&self) -> Result<String> {
        let name = format!("bench_{:012x}", fastrand::u64(..1 << 48));
        run(&self.instance.url, [format!("CREATE DATABASE {name}")]).await?;
        let (base, _) = self.instance.url.rsplit_once('/').context("a url with a database")?;
        Ok(format!("{base}/{name}"))
    }
}

/// Runs statements, each by itself.
async fn run(url: &str, statements: impl IntoIterator<Item = String>) -> Result<()> {
    let mut session = Session::open(url).await?;
    for sql in statements {
        session.run(sql).await?;
    }
    Ok(session.close().await?)
}

/// Gets over with what the server would do by itself after so many new rows in a table.
async fn settled<S: Speech>(url: &str, table: &str, count: usize) -> Result<()> {
    if count >= MANY {
        run(url, [S::known(table)]).await?;
    }
    run(url, S::FLUSH.map(str::to_owned)).await
}

/// Waits for loops, and adds up what they return.
async fn all(mut loops: JoinSet<Result<usize>>) -> Result<usize> {
    let mut sum = 0;
    while let Some(ended) = loops.join_next().await {
        sum += ended??;
    }
    Ok(sum)
}

#[async_trait]
impl<S: Speech> Bed for Server<S> {
    fn width(&self) -> usize {
        WIDTH
    }

    fn shapes(&self) -> &'static [Shape] {
        self.shapes
    }

    fn strategies(&self) -> &'static [Strategy] {
        // Whoever can skip has shapes that do; who cannot listen may name its lines beforehand.
        match (self.shapes.is_empty(), S::LISTENS) {
            (true, _) => &[Strategy::Cas, Strategy::Preempt],
            (false, true) => &[Strategy::SkipLocked, Strategy::Cas],
            (false, false) => &[Strategy::SkipLocked, Strategy::Cas, Strategy::Preempt],
        }
    }

    fn listens(&self) -> bool {
        S::LISTENS
    }

    async fn outbox(&self, events: usize, behind: usize) -> Result<String> {
        let url = self.database().await?;
        let outbox = store::open(&Setup::new(&*url)).await?;
        outbox.migrate().await?;
        outbox.close().await;
        run(&url, [S::SALE.to_owned()]).await?;
        if behind > 0 {
            let into = format!("outbox_sent ({EVENT}, {SENT})");
            run(&url, S::events(&into, behind, S::BEHIND)).await?;
            run(&url, [S::known("outbox_sent")]).await?;
        }
        self.fill(&url, events).await?;
        Ok(url)
    }

    async fn fill(&self, url: &str, count: usize) -> Result<()> {
        run(url, S::events(&format!("outbox ({EVENT})"), count, "")).await?;
        settled::<S>(url, "outbox", count).await
    }

    async fn later(&self, url: &str, count: usize, due: &str) -> Result<()> {
        let into = format!("outbox_later ({EVENT}, due_at)");
        run(url, S::events(&into, count, &format!(", {due}"))).await?;
        settled::<S>(url, "outbox_later", count).await
    }

    async fn count(&self, url: &str, table: &str) -> Result<usize> {
        let mut session = Session::open(url).await?;
        let count = session.number(format!("SELECT count(*) FROM {table}")).await?;
        session.close().await?;
        Ok(usize::try_from(count)?)
    }

    async fn snapshot(&self, url: &str) -> Result<Box<dyn Send>> {
        let mut session = Session::open(url).await?;
        session.run(S::SNAPSHOT).await?;
        session.number("SELECT count(*) FROM sale").await?;
        Ok(Box::new(session))
    }

    async fn raw(&self, url: &str, events: usize) -> Result<f64> {
        let start = Instant::now();
        let mut loops = JoinSet::new();
        for part in 0..WIDTH {
            let shards = (0..SHARDS).filter(|shard| usize::from(*shard) % WIDTH == part).collect();
            let url = url.to_owned();
            loops.spawn(async move { S::own(&url, shards).await });
        }
        let drained = all(loops).await?;
        ensure!(drained == events, "{drained} of {events} rows were drained");
        Ok(events as f64 / start.elapsed().as_secs_f64())
    }

    async fn shape(&self, shape: &Shape, count: usize) -> Result<f64> {
        let url = self.database().await?;
        run(&url, [S::QUEUE.to_owned()]).await?;
        run(&url, S::events(&format!("queue ({EVENT})"), count, "")).await?;
        run(&url, [S::known("queue")]).await?;
        run(&url, S::FLUSH.map(str::to_owned)).await?;
        let (start, left) = (Instant::now(), Arc::new(AtomicUsize::new(count)));
        let mut loops = JoinSet::new();
        for _ in 0..WIDTH {
            let (url, shape, left) = (url.clone(), *shape, left.clone());
            loops.spawn(async move { S::compete(&url, &shape, &left).await.map(|()| 0) });
        }
        all(loops).await?;
        let rate = count as f64 / start.elapsed().as_secs_f64();
        ensure!(left.load(Ordering::SeqCst) == 0, "rows were left, or ended twice");
        Ok(rate)
    }

    async fn produce(&self, url: &str, event: bool) -> Result<f64> {
        let mut crew = JoinSet::new();
        let start = Instant::now();
        for _ in 0..WIDTH {
            let url = url.to_owned();
            crew.spawn(
                async move { S::produce(&url, TRANSACTIONS / WIDTH, event).await.map(|()| 0) },
            );
        }
        all(crew).await?;
        Ok(TRANSACTIONS as f64 / start.elapsed().as_secs_f64())
    }
}
