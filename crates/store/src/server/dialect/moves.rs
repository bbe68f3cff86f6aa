//! Where rows go.

use async_trait::async_trait;
use event::{Millis, Shelf};

use super::super::fault::Fault;
use super::super::moves::{Again, End, Published};
use super::super::settle::{Kept, Owned};
use super::Connects;

/// Moves rows.
#[async_trait]
pub(crate) trait Moves: Connects {
    /// Whether a stroke is one statement, which needs no transaction around it.
    const ONE_STROKE: bool;

    /// Asks the tallies which shards nobody has taken since, counts what was published, and
    /// takes hot rows that stay out of flight.
    async fn open(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        owner: &str,
        shards: &[Owned],
        back: &[i64],
    ) -> Result<Kept, Fault>;
    /// Settles published hot rows, each with its broker's id.
    async fn stroke(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        owner: &str,
        shards: &[Owned],
        rows: &[End<Published>],
        history: bool,
    ) -> Result<Kept, Fault> {
        let kept = self.open(conn, now, owner, shards, &[]).await?;
        let ours = rows.iter().filter(|end| kept.shards.contains(&end.address.shard));
        let ours: Vec<_> = ours
            .map(|end| End { address: end.address, said: end.said.broker_id.clone() })
            .collect();
        self.done(conn, Shelf::Hot, &ours, history, kept.now).await?;
        Ok(kept)
    }
    /// Moves published rows of a table into the history, or takes them out.
    async fn done(
        &self,
        conn: &mut Self::Conn,
        shelf: Shelf,
        rows: &[End<Option<String>>],
        history: bool,
        now: Millis,
    ) -> Result<(), Fault>;
    /// Sets rows down for another attempt: when, and what they have behind them.
    async fn retry(
        &self,
        conn: &mut Self::Conn,
        shelf: Shelf,
        rows: &[End<Again>],
        now: Millis,
    ) -> Result<(), Fault>;
    /// Gives rows up: their attempts and trails.
    async fn dead(
        &self,
        conn: &mut Self::Conn,
        shelf: Shelf,
        rows: &[End<(i32, String)>],
        now: Millis,
    ) -> Result<(), Fault>;
    /// Sets later rows back as if they had not been claimed.
    async fn release(&self, conn: &mut Self::Conn, rows: &[(i64, Millis)]) -> Result<(), Fault>;
    /// Sets hot rows down as due that nobody settled in time.
    async fn lapse(
        &self,
        conn: &mut Self::Conn,
        rows: &[(u16, i64)],
        now: Millis,
    ) -> Result<(), Fault>;
    /// Makes later rows due that the last owners of shards had in flight.
    async fn lapse_later(
        &self,
        conn: &mut Self::Conn,
        shards: &[u16],
        now: Millis,
    ) -> Result<(), Fault>;
}
