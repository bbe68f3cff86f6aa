//! What one kind of server is asked, in questions to which every kind has an answer.
//!
//! Who may ask, when, and what an answer means does not depend on the kind: that is the rest of
//! this folder. Every statement is a dialect's.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use event::{
    Begun, Cause, Counts, Event, EventId, Fence, Filter, InboxEnd, Keep, Listing, Millis, Moment,
    Page, Shelf, StoreError,
};

use super::base::Base;
use super::compete::Seen;
use super::due::DueRow;
use super::fault::Fault;
use super::glance::Glance;
use super::history::Seen as SeenDay;
use super::hot::{Shown, Sighted};
use super::identity::Identity;
use super::lease::{Grant, LeaseRow, Renewal};
use super::moves::{Again, End};
use super::settle::{Kept, Owned};
use super::work::{Commit, Scope};
use crate::compete::Line;
use crate::own::{Member, Part, Passed};
use crate::{Accounts, Finding, Strategy};

/// A kind of server: everything that it is asked.
pub(crate) trait Dialect: Leases + Claims + Moves + Keeps + Competes {}

/// How a server is reached, and how work is set off there.
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
    /// Says what an error means.
    fn judge(error: &sqlx::Error) -> StoreError;
}

/// Who owns which shard, and who is there.
#[async_trait]
pub(crate) trait Leases: Connects {
    /// Whether leases are renewed by one statement, so that a claim that only renews them needs no
    /// transaction around it.
    const ONE_RENEWAL: bool;

    /// Counts the shards that the outbox was made with.
    async fn shards(&self, conn: &mut Self::Conn) -> Result<i64, Fault>;
    /// Opens leases and then their tallies for work that writes, in one order for everybody, with
    /// what is in flight in those `wanted`.
    async fn lock(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        shards: &[u16],
        wanted: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault>;
    /// Opens leases and then their tallies as [`lock`](Leases::lock) does, with what is in flight
    /// in each, but waits for nobody: what another has open is left out, or the server says that it
    /// is busy.
    async fn lock_free(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault>;
    /// Takes leases that are open, says so in their tallies, and returns their fences.
    async fn take(
        &self,
        conn: &mut Self::Conn,
        owner: &str,
        until: Millis,
        shards: &[u16],
    ) -> Result<Vec<(u16, Fence)>, Fault>;
    /// Renews leases, and returns the shards that were still the owner's.
    async fn renew(
        &self,
        conn: &mut Self::Conn,
        owner: &str,
        until: Millis,
        renewals: &[Renewal],
    ) -> Result<BTreeSet<u16>, Fault>;
    /// Hands leases over: to nobody, or to heirs, for whom they wait until then.
    async fn hand_over(
        &self,
        conn: &mut Self::Conn,
        owner: &str,
        until: Millis,
        grants: &[Grant],
    ) -> Result<(), Fault>;
    /// Says that a relay is there, and returns who is.
    async fn attend(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        owner: &str,
        until: Millis,
        lease: i64,
    ) -> Result<Vec<Member>, Fault>;
    /// Says that a relay goes.
    async fn depart(&self, conn: &mut Self::Conn, owner: &str) -> Result<(), Fault>;
}

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

/// What waits, and what of it may still appear where a lane has read.
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

/// What competing relays ask: whose a line is for the moment, and with which strategy the outbox is
/// claimed.
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

/// Where rows go.
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
        rows: &[End<Option<String>>],
        history: bool,
    ) -> Result<Kept, Fault> {
        let kept = self.open(conn, now, owner, shards, &[]).await?;
        let ours = rows.iter().filter(|end| kept.shards.contains(&end.address.shard));
        let ours: Vec<_> = ours.cloned().collect();
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

/// What is put, taken in, listed, trimmed and looked after.
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
