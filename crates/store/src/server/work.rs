//! Work on the database, carried to its end: the one place that begins, commits and rolls back.
//!
//! After an error nothing but a rollback goes out on a connection, and one whose state is in doubt
//! is closed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, StoreError};

use super::base::{Base, another_server};
use super::dialect::{Connects, Dialect};
use super::fault::Fault;
use super::lines::Line;

/// How often work that had to yield to another's is done again.
const AGAIN: u32 = 5;
/// How long work may take before its connection is closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It does, as the server says: what was answered stays.
    Sure,
    /// It need not: a crash of the server costs a repetition, never an event.
    Quick,
}

/// How work is set off from other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Each statement for itself.
    Statement,
    /// One transaction, each statement of which sees what was committed before it.
    Transaction,
    /// One moment: a row that moves meanwhile is seen exactly once.
    Moment,
}

/// How work is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    commit: Commit,
    scope: Scope,
    repeats: bool,
    era: Option<u64>,
}

impl Terms {
    /// Says whether its answer is a promise that must outlive a crash of the server, and how it is
    /// set off. It may be done again after it was undone.
    pub(super) fn new(commit: Commit, scope: Scope) -> Terms {
        Terms { commit, scope, repeats: true, era: None }
    }

    /// Says from what was remembered of which server it was made.
    pub(super) fn of(self, era: u64) -> Terms {
        Terms { era: Some(era), ..self }
    }

    /// Says that it is not done again.
    pub(super) fn once(self) -> Terms {
        Terms { repeats: false, ..self }
    }
}

/// Something to do on a connection.
#[async_trait]
pub(super) trait Work<D: Dialect>: Send {
    /// What it answers once it is committed.
    type Out: Send;
    /// Says how it is to be done.
    fn terms(&self) -> Terms;
    /// Does it. After an error nothing more is asked of the connection.
    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault>;
    /// Learns that it may or may not have been committed.
    fn doubted(&mut self) {}
}

impl<D: Dialect> Base<D> {
    /// Has work done by itself, whether or not the caller still waits.
    pub(super) async fn carry<W>(self: &Arc<Base<D>>, mut work: W) -> Result<W::Out, StoreError>
    where
        W: Work<D> + 'static,
        W::Out: 'static,
    {
        let base = self.clone();
        // Boxed, so that a spawned piece of work is compiled once for each kind of answer.
        let done: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(async move { base.work(&mut work).await });
        carried(tokio::spawn(done)).await
    }

    /// Does work to its end; again, if it had to yield.
    pub(super) async fn work<W: Work<D>>(&self, work: &mut W) -> Result<W::Out, StoreError> {
        let mut tries = 1;
        loop {
            match tokio::time::timeout(PATIENCE, self.once(work)).await {
                Ok(Ok(out)) => return Ok(out),
                Ok(Err(fault)) if yields::<D>(&fault) && work.terms().repeats && tries < AGAIN => {
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..10 << tries))).await;
                    tries += 1;
                }
                Ok(Err(fault)) => return Err(self.judged(fault)),
                Err(_) => {
                    work.doubted();
                    let detail = format!("the server did not answer within {PATIENCE:?}");
                    let cause = Cause::new(Code::StoreDown, detail);
                    return Err(self.judged(StoreError::Down(cause).into()));
                }
            }
        }
    }

    /// Borrows a connection to the server that was met last.
    async fn line(&self, commit: Commit) -> Result<Line<D>, Fault> {
        loop {
            let mut line = self.lines(commit).line(&self.db).await?;
            match line.made_to.take() {
                Some(server) => line.era = self.meet(server)?,
                // It leads to another one, and is closed.
                None if line.era != self.holding().era => continue,
                None => {}
            }
            return Ok(line);
        }
    }

    async fn once<W: Work<D>>(&self, work: &mut W) -> Result<W::Out, Fault> {
        let Terms { commit, scope, era, .. } = work.terms();
        let mut line = self.line(commit).await?;
        if era.is_some_and(|era| era != line.era) {
            return Err(another_server().into());
        }
        if scope == Scope::Statement {
            let out = work.run(self, &mut line.conn).await;
            return match out {
                Ok(out) => {
                    line.put_back();
                    Ok(out)
                }
                Err(fault) => {
                    if !undone::<D>(&fault) {
                        work.doubted();
                    }
                    Err(fault)
                }
            };
        }
        D::begin(&mut line.conn, scope).await?;
        match work.run(self, &mut line.conn).await {
            Ok(out) => {
                if let Err(fault) = D::commit(&mut line.conn).await {
                    work.doubted();
                    return Err(fault);
                }
                line.put_back();
                Ok(out)
            }
            Err(fault) => {
                if D::roll_back(&mut line.conn).await.is_ok() {
                    line.put_back();
                }
                Err(fault)
            }
        }
    }

    /// Judges a fault. When the server is gone or has become a standby, so have the connections
    /// that are free.
    fn judged(&self, fault: Fault) -> StoreError {
        let error = match fault {
            Fault::Sql(error) => D::judge(&error),
            Fault::Judged(error) => error,
        };
        if error.cause().code == Code::StoreDown {
            self.forget_lines();
        }
        error
    }
}

fn undone<D: Connects>(fault: &Fault) -> bool {
    matches!(fault, Fault::Sql(error) if D::undone(error))
}

fn yields<D: Connects>(fault: &Fault) -> bool {
    matches!(fault, Fault::Sql(error) if D::yields(error))
}

/// Waits for work that goes on by itself.
pub(super) async fn carried<T>(
    work: tokio::task::JoinHandle<Result<T, StoreError>>,
) -> Result<T, StoreError> {
    work.await.unwrap_or_else(|error| {
        let detail = format!("work on the outbox ended early: {error}");
        Err(StoreError::Broken(Cause::new(Code::StoreBroken, detail)))
    })
}
