//! What is put, taken in, listed, trimmed and looked after.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, Counts, Event, EventId, Fence, Filter, InboxEnd, Keep, Listing, Millis, Page};

use super::super::base::Base;
use super::super::fault::Fault;
use super::super::history::Seen as SeenDay;
use super::super::work::Scope;
use super::{Connects, Dialect};
use crate::{Accounts, Finding};

/// Keeps everything beside the claims.
#[async_trait]
pub(crate) trait Keeps: Connects {
    /// The version of the schema that this program works with.
    const WANTED: u32;

    /// Says how putting these events down is set off.
    fn puts(_: &[Event]) -> Scope {
        Scope::Statement
    }
    /// Puts events down.
    async fn put(
        &self,
        conn: &mut Self::Conn,
        events: &[Event],
        due: Option<Millis>,
        now: Option<i64>,
    ) -> Result<(), Fault>;
    /// Asks to work on an event for a group.
    async fn begin_work(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        group: &str,
        id: EventId,
        lease: i64,
    ) -> Result<Begun, Fault>;
    /// Ends that work. Returns whether the fence was the newest.
    async fn finish_work(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        group: &str,
        id: EventId,
        fence: Fence,
        end: &InboxEnd,
    ) -> Result<bool, Fault>;
    /// Takes or renews the lease of the chores. Returns the clock, unless another holds it.
    async fn take_chores(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        owner: &str,
        lease: i64,
    ) -> Result<Option<Millis>, Fault>;
    /// Trims some history that is older than it must be kept, row by row. Returns how much.
    async fn trim_sent(
        &self,
        conn: &mut Self::Conn,
        keep: &Keep,
        now: Millis,
    ) -> Result<u64, Fault>;
    /// Trims whatever else is older than it must be kept. Returns how much inbox memory.
    async fn trim(&self, conn: &mut Self::Conn, keep: &Keep, now: Millis) -> Result<u64, Fault>;
    /// Looks at days of history by their slots, at so many rows of each at the most.
    async fn days(
        &self,
        conn: &mut Self::Conn,
        slots: &[i64],
        most: i64,
    ) -> Result<BTreeMap<i64, SeenDay>, Fault>;
    /// How dropping a day is set off.
    const DROPS: Scope;
    /// How long nobody tries again after a day could not be dropped: what a trial costs others.
    const BACK_OFF: Duration;
    /// Keeps others from a day that is to be dropped, where that is possible. Returns whether it
    /// was, without waiting for them.
    async fn hold_day(&self, conn: &mut Self::Conn, slot: i64) -> Result<bool, Fault>;
    /// Drops a day of history at once. Returns whether it could be, without waiting long.
    async fn drop_day(&self, conn: &mut Self::Conn, slot: i64) -> Result<bool, Fault>;
    /// Lists a page.
    async fn find(
        base: &Base<Self>,
        conn: &mut Self::Conn,
        filter: &Filter,
        page: &Page,
    ) -> Result<Listing, Fault>
    where
        Self: Dialect;
    /// Counts rows by status, one by one up to `many` of a table.
    async fn count(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        many: i64,
    ) -> Result<Counts, Fault>;
    /// Returns which of these are dead, oldest first.
    async fn dead_in_order(
        &self,
        conn: &mut Self::Conn,
        ids: &[EventId],
    ) -> Result<Vec<EventId>, Fault>;
    /// Gives dead events a new life. Returns whose was given.
    async fn revive(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        ids: &[EventId],
    ) -> Result<Vec<EventId>, Fault>;
    /// Tells whether a table is there.
    async fn has(&self, conn: &mut Self::Conn, name: &str) -> Result<bool, Fault>;
    /// Returns the tables that a version of the schema has.
    fn tables(&self, version: u32) -> Vec<String>;
    /// Reads the version of the schema; 0 is none.
    async fn version(&self, conn: &mut Self::Conn) -> Result<u32, Fault>;
    /// How a migration is set off.
    const MIGRATES: Scope;
    /// Waits until no other migration runs, and keeps the next one waiting.
    async fn queue_up(&self, conn: &mut Self::Conn) -> Result<(), Fault>;
    /// Brings the schema to a version from the one before it, in so many shards.
    async fn apply(&self, conn: &mut Self::Conn, version: u32, shards: u16) -> Result<(), Fault>;
    /// Lets the next migration begin.
    async fn leave_queue(&self, conn: &mut Self::Conn) -> Result<(), Fault>;
    /// Returns the statements that give accounts their rights.
    fn grants(&self, accounts: &Accounts) -> String;
    /// Returns the statements of a migration of an empty database.
    fn migration(&self, shards: u16) -> String;
    /// Looks at version, settings, schema, plans and clock.
    async fn examine(base: &Base<Self>, conn: &mut Self::Conn) -> Result<Vec<Finding>, Fault>
    where
        Self: Dialect;
}
