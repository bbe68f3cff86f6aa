//! The one writer: whatever is queued shares a commit.
//!
//! SQLite has one writer at a time, and a commit costs more than most of what is in it. Each piece
//! of work has its own savepoint, so one that fails undoes nothing of the others. Work that was
//! begun is carried to its end, whether or not its caller still waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use event::{Cause, Code, StoreError};
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
pub(super) struct Writer {
    errands: mpsc::Sender<Errand>,
    /// Whether the writer ended because it was told to.
    closed: Arc<AtomicBool>,
}

enum Errand {
    Work(Box<dyn Piece>),
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Starts the writer. It ends when nobody can hand it work any more.
    pub(super) fn start(base: Arc<Base>) -> Writer {
        let (errands, queue) = mpsc::channel(4 * GROUP);
        let closed = Arc::new(AtomicBool::new(false));
        tokio::spawn(serve(base, queue, closed.clone()));
        Writer { errands, closed }
    }

    /// Has work done, and returns once it is committed or undone.
    pub(super) async fn run<W: Work>(&self, work: W) -> Result<W::Out, StoreError> {
        let (reply, answer) = oneshot::channel();
        let piece = Box::new(Posted { work, reply, out: None });
        self.errands.send(Errand::Work(piece)).await.map_err(|_| self.gone())?;
        answer.await.map_err(|_| self.gone())?
    }

    /// Says why nobody answers any more. A writer that broke down never comes back, so whoever
    /// would wait for it must end instead.
    fn gone(&self) -> StoreError {
        if self.closed.load(Ordering::SeqCst) {
            return closed();
        }
        let detail = "the writer of this outbox broke down; see the log, and start again";
        StoreError::Broken(Cause::new(Code::StoreBroken, detail))
    }

    /// Ends the writer after what is queued.
    pub(super) async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.errands.send(Errand::Close(reply)).await.is_ok() {
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

async fn serve(base: Arc<Base>, mut queue: mpsc::Receiver<Errand>, closed: Arc<AtomicBool>) {
    let mut pen = Pen { base, conn: None, durable: false };
    let mut closing = None;
    while closing.is_none() {
        let Some(mut errand) = queue.recv().await else { break };
        let mut group = Vec::new();
        loop {
            match errand {
                Errand::Work(piece) => group.push(piece),
                Errand::Close(reply) => closing = Some(reply),
            }
            if closing.is_some() || group.len() == GROUP {
                break;
            }
            let Ok(next) = queue.try_recv() else { break };
            errand = next;
        }
        if !group.is_empty() {
            pen.write(group).await;
        }
    }
    closed.store(true, Ordering::SeqCst);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setup;
    use crate::sqlite::schema;

    struct Fine;

    #[async_trait]
    impl Work for Fine {
        type Out = ();
        const DURABLE: bool = false;

        async fn run(&mut self, _: &Base, _: &mut SqliteConnection) -> Result<(), Fault> {
            Ok(())
        }
    }

    struct Panics;

    #[async_trait]
    impl Work for Panics {
        type Out = ();
        const DURABLE: bool = false;

        async fn run(&mut self, _: &Base, _: &mut SqliteConnection) -> Result<(), Fault> {
            panic!("as the test says")
        }
    }

    async fn writer(folder: &tempfile::TempDir) -> Writer {
        let file = folder.path().join("orders.sqlite3");
        let base = Base::new(&Setup::new(format!("sqlite:{}", file.display()))).unwrap();
        schema::migrate(&base).await.unwrap();
        Writer::start(base)
    }

    #[tokio::test]
    async fn a_writer_that_breaks_down_is_broken_for_good_and_a_closed_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(&folder).await;
        writer.run(Fine).await.unwrap();
        for ended in [writer.run(Panics).await, writer.run(Fine).await] {
            let Err(StoreError::Broken(cause)) = ended else { panic!("{ended:?}") };
            assert_eq!(cause.code, Code::StoreBroken);
        }
        writer.close().await;
        assert!(matches!(writer.run(Fine).await, Err(StoreError::Broken(_))));

        let folder = tempfile::tempdir().unwrap();
        let writer = self::writer(&folder).await;
        writer.run(Fine).await.unwrap();
        writer.close().await;
        assert_eq!(writer.run(Fine).await, Err(closed()));
    }
}
