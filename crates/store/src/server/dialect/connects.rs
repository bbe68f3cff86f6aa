//! How a server is reached, and how work is set off there.

use std::time::Duration;

use async_trait::async_trait;
use event::{Millis, StoreError};

use super::super::fault::Fault;
use super::super::identity::Identity;
use super::super::work::{Commit, Scope};

/// Reaches a server, and sets work off there.
#[async_trait]
pub(crate) trait Connects: Send + Sync + Sized + 'static {
    /// A connection.
    type Conn: Send;
    /// What people call it.
    const NAME: &'static str;
    /// How long a connection may lie idle and still be used: less than the server allows it.
    const IDLE: Duration;

    /// Connects, sets the connection up, and refuses a server that cannot be worked with. Says
    /// which server it is as well.
    async fn connect(&self, commit: Commit) -> Result<(Self::Conn, Identity), Fault>;
    /// Reads the clock that rules.
    async fn clock(&self, conn: &mut Self::Conn, now: Option<i64>) -> Result<Millis, Fault>;
    /// Begins a transaction.
    async fn begin(conn: &mut Self::Conn, scope: Scope) -> Result<(), Fault>;
    /// Commits it. An error leaves in doubt whether that was done.
    async fn commit(conn: &mut Self::Conn) -> Result<(), Fault>;
    /// Rolls it back.
    async fn roll_back(conn: &mut Self::Conn) -> Result<(), Fault>;
    /// Ends a connection.
    async fn hang_up(conn: Self::Conn);
    /// Tells whether the same work may succeed at once: it met another's, and one had to yield.
    fn yields(error: &sqlx::Error) -> bool;
    /// Tells whether the server said of a lone statement that it gave it up.
    fn undone(error: &sqlx::Error) -> bool;
    /// Tells whether the account lacks a right.
    fn denied(error: &sqlx::Error) -> bool;
    /// Says what an error means.
    fn judge(error: &sqlx::Error) -> StoreError;
}
