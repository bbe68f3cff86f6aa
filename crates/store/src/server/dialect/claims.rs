//! What waits, and what of it may still appear where a lane has read.

use std::collections::BTreeMap;

use async_trait::async_trait;
use event::{Cause, Event, Fence, Millis, Moment};

use super::super::base::Base;
use super::super::due::DueRow;
use super::super::fault::Fault;
use super::super::glance::Glance;
use super::super::hot::{Shown, Sighted};
use super::{Dialect, Leases};
use crate::own::{Part, Passed};

/// A later row that was claimed.
pub(crate) struct Claimed {
    pub(crate) number: i64,
    /// The event, or why it is none.
    pub(crate) event: Result<Event, Cause>,
    pub(crate) attempt: u32,
    pub(crate) unexplained: u32,
    pub(crate) trail: Vec<Moment>,
}

/// A row that holds the followers of its key.
pub(crate) struct Holder {
    pub(crate) number: i64,
    pub(crate) birth: i64,
    pub(crate) key: String,
    pub(crate) topic: String,
}

/// Reads what waits, and claims it.
#[async_trait]
pub(crate) trait Claims: Leases {
    /// A row as it was read.
    type Row: Send + Sync;
    /// What a look knows of transactions that may still write below what it has read.
    type Seen: Send + Sync;

    /// Looks at the clock, every shard's lease and what waits, for one lane, at later rows that
    /// are due after `seen`.
    async fn glance(
        base: &Base<Self>,
        conn: &mut Self::Conn,
        lane: usize,
        seen: Millis,
    ) -> Result<Glance<Self>, Fault>
    where
        Self: Dialect;
    /// Looks once at the next hot rows of a lane.
    async fn look(
        base: &Base<Self>,
        conn: &mut Self::Conn,
        lane: usize,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown<Self>, Fault>
    where
        Self: Dialect;
    /// Reads a row's topic.
    fn topic(row: &Self::Row) -> Result<&str, Fault>;
    /// Reads a row's event. The inner error says why it is none.
    fn event(row: &Self::Row) -> Result<Result<Event, Cause>, Fault>;
    /// Learns that a hot row was looked at.
    fn passed(part: &mut Part, seq: i64);
    /// Learns what a look at a shard saw.
    fn saw(part: &mut Part, seen: &Self::Seen, sight: &Sighted);
    /// Learns that every later row up to a place was passed, as of a look that saw `newest` rows.
    fn saw_later(part: &mut Part, seen: &Self::Seen, newest: i64, passed: Passed);
    /// Reads the keys of a shard that wait for another attempt of one of their events.
    async fn holders(&self, conn: &mut Self::Conn, shard: u16) -> Result<Vec<Holder>, Fault>;
    /// Reads which later rows of each shard are due beyond a place.
    async fn due_later(
        &self,
        conn: &mut Self::Conn,
        now: Millis,
        places: &[(u16, Millis, i64)],
        chunk: i64,
    ) -> Result<Vec<DueRow>, Fault>;
    /// Reads which later rows have come to stand where a lane has passed.
    async fn new_later(
        base: &Base<Self>,
        conn: &mut Self::Conn,
        lane: usize,
        passed: &BTreeMap<u16, Passed>,
    ) -> Result<Vec<DueRow>, Fault>
    where
        Self: Dialect;
    /// Claims later rows, by number and fence, until then.
    async fn claim_later(
        &self,
        conn: &mut Self::Conn,
        rows: &[(i64, Fence)],
        until: Millis,
    ) -> Result<Vec<Claimed>, Fault>;
}
