//! The one writer: whatever is queued shares a commit.
//!
//! SQLite has one writer at a time, and a commit costs more than most of what is in it. Each piece
//! of work has its own savepoint, so one that fails undoes nothing of the others. Work that was
//! begun is carried to its end, whether or not its caller still waits.

use std::sync::Arc;

use async_trait::async_trait;
use event::StoreError;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::base::Base;
use super::connect;
use super::error::{Fault, closed};

/// How much work shares a commit at the most.
const GROUP: usize = 64;

/// Something to do inside a write transaction.
#[async_trait]
pub(super) trait Work: Send + 'static {
    /// What it answers once it is committed.
    type Out: Send + 'static;
    /// Whether its answer is a promise that must outlive a power failure.
    const DURABLE: bool;
    /// Does it. After an error nothing more is asked of the connection.
    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<Self::Out, Fault>;
    /// Learns that what it did was undone.
    fn undone(&mut self, _base: &Base) {}
}

/// A way to hand work to the writer.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Order>);

enum Order {
    Work(Box<dyn Piece>),
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Starts the writer. It ends when nobody can hand it work any more.
    pub(super) fn start(base: Arc<Base>) -> Writer {
        let (sender, orders) = mpsc::channel(4 * GROUP);
        tokio::spawn(serve(base, orders));
        Writer(sender)
    }

    /// Has work done, and returns once it is committed or undone.
    pub(super) async fn run<W: Work>(&self, work: W) -> Result<W::Out, StoreError> {
        let (reply, answer) = oneshot::channel();
        let piece = Box::new(Posted { work, reply, out: None });
        self.0.send(Order::Work(piece)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Ends the writer after what is queued.
    pub(super) async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.0.send(Order::Close(reply)).await.is_ok() {
            let _ = answer.await;
        }
    }
}

/// Work with its caller, whatever it answers.
#[async_trait]
trait Piece: Send {
    fn durable(&self) -> bool;
    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), StoreError>;
    /// Answers the caller: with what came out, or with why it was undone.
    fn end(self: Box<Self>, base: &Base, verdict: Result<(), StoreError>);
}

struct Posted<W: Work> {
    work: W,
    reply: oneshot::Sender<Result<W::Out, StoreError>>,
    /// What came out, unless it failed.
    out: Option<W::Out>,
}

#[async_trait]
impl<W: Work> Piece for Posted<W> {
    fn durable(&self) -> bool {
        W::DURABLE
    }

    async fn run(&mut self, base: &Base, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        match self.work.run(base, conn).await {
            Ok(out) => self.out = Some(out),
            Err(fault) => {
                self.work.undone(base);
                return Err(fault.into());
            }
        }
        Ok(())
    }

    fn end(mut self: Box<Self>, base: &Base, verdict: Result<(), StoreError>) {
        if verdict.is_err() && self.out.is_some() {
            self.work.undone(base);
        }
        let answer = verdict.map(|()| self.out.take().expect("work that succeeded has an answer"));
        // A caller that no longer waits needs no answer.
        let _ = self.reply.send(answer);
    }
}

async fn serve(base: Arc<Base>, mut orders: mpsc::Receiver<Order>) {
    let mut pen = Pen { base, conn: None, durable: false };
    let mut closing = None;
    while closing.is_none() {
        let Some(mut order) = orders.recv().await else { break };
        let mut group = Vec::new();
        loop {
            match order {
                Order::Work(piece) => group.push(piece),
                Order::Close(reply) => closing = Some(reply),
            }
            if closing.is_some() || group.len() == GROUP {
                break;
            }
            let Ok(next) = orders.try_recv() else { break };
            order = next;
        }
        if !group.is_empty() {
            pen.write(group).await;
        }
    }
    if let Some(conn) = pen.conn.take() {
        // The last connection folds the log into the file; if it cannot, the next one does.
        let _ = conn.close().await;
    }
    if let Some(reply) = closing {
        let _ = reply.send(());
    }
}

/// The writer's connection.
struct Pen {
    base: Arc<Base>,
    conn: Option<SqliteConnection>,
    /// Whether commits now reach the disk before they return.
    durable: bool,
}

impl Pen {
    async fn write(&mut self, mut group: Vec<Box<dyn Piece>>) {
        let durable = group.iter().any(|piece| piece.durable());
        let verdicts = match self.begin(durable).await {
            Ok(()) => self.fill(&mut group).await,
            Err(fault) => Err(fault),
        };
        let verdicts = verdicts.map_err(StoreError::from);
        for (at, piece) in group.into_iter().enumerate() {
            let verdict = match &verdicts {
                Ok(verdicts) => verdicts[at].clone(),
                Err(error) => Err(error.clone()),
            };
            piece.end(&self.base, verdict);
        }
    }

    async fn begin(&mut self, durable: bool) -> Result<(), Fault> {
        if self.conn.is_none() {
            self.conn = Some(connect::writer(&self.base.path, false).await?);
            self.durable = false;
        }
        let conn = self.conn.as_mut().expect("a connection was just made");
        self.base.check(conn).await?;
        if durable != self.durable {
            let pragma =
                if durable { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" };
            sqlx::query(pragma).execute(&mut *conn).await?;
            self.durable = durable;
        }
        sqlx::query("BEGIN IMMEDIATE").execute(&mut *conn).await?;
        Ok(())
    }

    /// Runs a group and commits it. An error here means that all of it was undone.
    async fn fill(
        &mut self,
        group: &mut [Box<dyn Piece>],
    ) -> Result<Vec<Result<(), StoreError>>, Fault> {
        let mut conn = self.conn.take().expect("a transaction has its connection");
        let filled = fill(&self.base, &mut conn, group).await;
        let end = if filled.is_ok() { "COMMIT" } else { "ROLLBACK" };
        match (filled, sqlx::query(end).execute(&mut conn).await) {
            (Ok(verdicts), Ok(_)) => {
                self.conn = Some(conn);
                Ok(verdicts)
            }
            (Err(fault), Ok(_)) => {
                self.conn = Some(conn);
                Err(fault)
            }
            // It may still be inside the transaction: dropping the connection undoes that.
            (Err(fault), Err(_)) => Err(fault),
            (Ok(_), Err(error)) => Err(error.into()),
        }
    }
}

async fn fill(
    base: &Base,
    conn: &mut SqliteConnection,
    group: &mut [Box<dyn Piece>],
) -> Result<Vec<Result<(), StoreError>>, Fault> {
    if let [only] = group {
        only.run(base, conn).await?;
        return Ok(vec![Ok(())]);
    }
    let mut verdicts = Vec::with_capacity(group.len());
    for piece in group {
        sqlx::query("SAVEPOINT piece").execute(&mut *conn).await?;
        let verdict = piece.run(base, conn).await;
        if verdict.is_err() {
            // Some errors have undone all of the transaction: then there is no savepoint either.
            sqlx::query("ROLLBACK TO piece").execute(&mut *conn).await?;
        }
        sqlx::query("RELEASE piece").execute(&mut *conn).await?;
        verdicts.push(verdict);
    }
    Ok(verdicts)
}
