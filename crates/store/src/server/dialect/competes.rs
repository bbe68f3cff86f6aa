//! What competing relays ask: whose a line is for the moment, and with which strategy the outbox is
//! claimed.

use std::collections::HashSet;

use async_trait::async_trait;
use event::{EventId, Fence, Millis};

use super::super::base::Base;
use super::super::compete::Seen;
use super::super::fault::Fault;
use super::super::hot::Shown;
use super::{Claimed, Claims, Dialect};
use crate::Strategy;
use crate::compete::Line;

/// Opens lines, claims from them, and keeps the strategy.
#[async_trait]
pub(crate) trait Competes: Claims {
    /// Looks at the clock and what waits in each shard for one lane, and whether a claim seems to
    /// last longer than any can.
    async fn see(
        base: &Base<Self>,
        conn: &mut Self::Conn,
        lane: usize,
        shards: &[u16],
        longest: i64,
    ) -> Result<Seen<Self>, Fault>
    where
        Self: Dialect;
    /// Looks once at hot rows that a lane may take, shard by shard in the order given.
    async fn candidates(
        base: &Base<Self>,
        conn: &mut Self::Conn,
        lane: usize,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown<Self>, Fault>
    where
        Self: Dialect;
    /// Writes a relay's name into lines, in the order in which they are wanted, so many at the
    /// most: into those that have none, or one whose time is over or longer than any is. Returns
    /// which.
    async fn preempt(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        owner: &str,
        until: (Millis, i64),
        shards: &[u16],
        most: usize,
    ) -> Result<Vec<u16>, Fault>;
    /// Opens lines, named in the order in which they are wanted with the fences that were seen: so
    /// many at the most, and none that another has or had meanwhile. A strategy that waits tries no
    /// more than that many. They are open until the transaction ends.
    async fn open_lines(
        &self,
        conn: &mut Self::Conn,
        strategy: Strategy,
        now: Option<i64>,
        owner: &str,
        lines: &[(u16, Fence)],
        most: usize,
    ) -> Result<Vec<Line>, Fault>;
    /// Opens lines in one order for everybody, and waits for whoever has them.
    async fn hold_lines(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<Line>, Fault>;
    /// Writes down what open lines say now. A relay's name in them ends.
    async fn write_lines(
        &self,
        conn: &mut Self::Conn,
        owner: &str,
        lines: &[Line],
    ) -> Result<(), Fault>;
    /// Claims later rows that are due as they were read, as far as nobody was quicker. Returns
    /// them with their fences.
    async fn win_later(
        &self,
        conn: &mut Self::Conn,
        strategy: Strategy,
        rows: &[(i64, Millis)],
        now: Millis,
        until: Millis,
    ) -> Result<Vec<(Claimed, Fence)>, Fault>;
    /// Opens rows in flight for their settlement. Returns those that nobody has claimed since.
    async fn still(
        &self,
        conn: &mut Self::Conn,
        rows: &[(i64, Fence, EventId)],
    ) -> Result<HashSet<i64>, Fault>;
    /// Counts what was published, in one shard's tally.
    async fn count_sent(&self, conn: &mut Self::Conn, shard: u16, sent: usize)
    -> Result<(), Fault>;
    /// Reads with which strategy the outbox is claimed, and the clock; it stays so until the
    /// transaction ends.
    async fn strategy(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
    ) -> Result<Option<(String, Millis)>, Fault>;
    /// Takes every lease, which are open, from its last owner, and writes a strategy down.
    async fn write_strategy(&self, conn: &mut Self::Conn, strategy: Strategy) -> Result<(), Fault>;
    /// Reads until when the longest claim of a later row lasts, of those that end by then.
    async fn last_claim(
        &self,
        conn: &mut Self::Conn,
        longest: Millis,
    ) -> Result<Option<Millis>, Fault>;
    /// Reads until when other relays say that they are there.
    async fn others(&self, conn: &mut Self::Conn, owner: &str) -> Result<Vec<Millis>, Fault>;
    /// Makes rows due whose claims seem to last longer than any can.
    async fn return_later(
        &self,
        conn: &mut Self::Conn,
        now: Millis,
        longest: i64,
    ) -> Result<(), Fault>;
}
