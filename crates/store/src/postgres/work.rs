//! Work on the database, carried to its end: the one place that begins, commits and rolls back.
//!
//! After an error nothing but a rollback goes out on a connection, and one whose state is in doubt
//! is closed. A commit first asks something, because PostgreSQL answers the commit of an aborted
//! transaction with a rollback and no error.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use event::{Cause, Code, StoreError};
use sqlx::PgConnection;

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;

/// How often work that had to yield to another's is done again.
const AGAIN: u32 = 5;
/// How long work may take before its connection is closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// How work is set off from other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Each statement for itself.
    Statement,
    /// One transaction, each statement of which sees what was committed before it.
    Transaction,
    /// One moment: a row that moves meanwhile is seen exactly once.
    Moment,
}

impl Scope {
    fn begin(self) -> Option<&'static str> {
        match self {
            Scope::Statement => None,
            Scope::Transaction => Some("BEGIN ISOLATION LEVEL READ COMMITTED"),
            Scope::Moment => Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        }
    }
}

/// Something to do on a connection.
#[async_trait]
pub(super) trait Work: Send {
    /// What it answers once it is committed.
    type Out: Send;
    /// Whether its answer is a promise that must outlive a crash of the server.
    const COMMIT: Commit;
    /// Says how it is set off.
    fn scope(&self) -> Scope {
        Scope::Statement
    }
    /// Tells whether it may be done again after it was undone.
    fn repeats(&self) -> bool {
        true
    }
    /// Does it. After an error nothing more is asked of the connection.
    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault>;
    /// Learns that it may or may not have been committed.
    fn doubted(&mut self) {}
}

impl Base {
    /// Has work done by itself, whether or not the caller still waits.
    pub(super) async fn carry<W>(self: &Arc<Base>, mut work: W) -> Result<W::Out, StoreError>
    where
        W: Work + 'static,
        W::Out: 'static,
    {
        let base = self.clone();
        carried(tokio::spawn(async move { base.work(&mut work).await })).await
    }

    /// Does work to its end; again, if it had to yield.
    pub(super) async fn work<W: Work>(&self, work: &mut W) -> Result<W::Out, StoreError> {
        let mut tries = 1;
        loop {
            match tokio::time::timeout(PATIENCE, self.once(work)).await {
                Ok(Ok(out)) => return Ok(out),
                Ok(Err(fault)) if fault.yields() && work.repeats() && tries < AGAIN => {
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

    async fn once<W: Work>(&self, work: &mut W) -> Result<W::Out, Fault> {
        let mut line = self.lines(W::COMMIT).line().await?;
        let Some(begin) = work.scope().begin() else {
            let out = work.run(self, &mut line.conn).await;
            return match out {
                Ok(out) => {
                    line.put_back();
                    Ok(out)
                }
                Err(fault) => {
                    work.doubted();
                    Err(fault)
                }
            };
        };
        sqlx::raw_sql(begin).execute(&mut line.conn).await?;
        match work.run(self, &mut line.conn).await {
            Ok(out) => {
                if let Err(error) = sqlx::raw_sql("SELECT 1; COMMIT").execute(&mut line.conn).await
                {
                    work.doubted();
                    return Err(error.into());
                }
                line.put_back();
                Ok(out)
            }
            Err(fault) => {
                if sqlx::raw_sql("ROLLBACK").execute(&mut line.conn).await.is_ok() {
                    line.put_back();
                }
                Err(fault)
            }
        }
    }

    /// Judges a fault. When the server is gone or has become a standby, so have the connections
    /// that are free.
    fn judged(&self, fault: Fault) -> StoreError {
        let error = StoreError::from(fault);
        if error.cause().code == Code::StoreDown {
            self.forget_lines();
        }
        error
    }
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
