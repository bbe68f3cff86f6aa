//! Who owns which shard, and who is there.

use std::collections::BTreeSet;

use async_trait::async_trait;
use event::{Fence, Millis};

use super::super::fault::Fault;
use super::super::lease::{Grant, LeaseRow, Renewal};
use super::Connects;
use crate::own::Member;

/// Keeps leases and names relays.
#[async_trait]
pub(crate) trait Leases: Connects {
    /// Whether leases are renewed by one statement, so that a claim that only renews them needs no
    /// transaction around it.
    const ONE_RENEWAL: bool;

    /// Counts the shards that the outbox was made with.
    async fn shards(&self, conn: &mut Self::Conn) -> Result<i64, Fault>;
    /// Opens leases and then their tallies for work that writes, in one order for everybody, with
    /// what is in flight in those `wanted`.
    async fn open_leases(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        shards: &[u16],
        wanted: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault>;
    /// Opens leases, with what is in flight in each, and waits for nobody: what another has open is
    /// left out, or the server says that it is busy.
    async fn open_leases_now(
        &self,
        conn: &mut Self::Conn,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<LeaseRow>, Fault>;
    /// Opens the tallies of shards whose leases are open, and waits for nobody as well. Returns
    /// whose could be opened.
    async fn open_tallies_now(
        &self,
        conn: &mut Self::Conn,
        shards: &[u16],
    ) -> Result<BTreeSet<u16>, Fault>;
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
