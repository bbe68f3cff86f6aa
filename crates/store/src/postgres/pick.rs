//! What a claim picks, and what it must write down for it at the end.

use std::collections::BTreeSet;

use event::{Cause, Claim, Millis, Want};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::claim::Stage;
use super::compete::Rivals;
use super::error::Fault;
use super::glance::{Glance, number};
use super::lease::{Renewal, renew};
use super::rows;
use crate::own::Room;

/// A claim under way.
pub(super) struct Pick<'a> {
    pub(super) lane: usize,
    pub(super) room: Room,
    pub(super) now: Millis,
    pub(super) until: Millis,
    pub(super) stages: &'a [Stage],
    pub(super) claims: Vec<Claim>,
    /// Whether every later row that is due was looked at.
    pub(super) all_seen: bool,
    /// Shards whose lease rows must name other hot rows.
    pub(super) changed: BTreeSet<u16>,
    /// Shards in which something was there to look at.
    pub(super) stirred: BTreeSet<u16>,
    /// Rows that are no events.
    pub(super) bad: Vec<(event::Address, u32, Cause)>,
    /// What a claim of competing relays has met; none, where shards are leased.
    pub(super) rivals: Option<Rivals>,
}

impl<'a> Pick<'a> {
    pub(super) fn new(lane: usize, want: Want, now: Millis, stages: &'a [Stage]) -> Pick<'a> {
        Pick {
            lane,
            room: Room::new(want),
            now,
            until: now + want.lease,
            stages,
            claims: Vec::new(),
            all_seen: true,
            changed: BTreeSet::new(),
            stirred: BTreeSet::new(),
            bad: Vec::new(),
            rivals: None,
        }
    }

    pub(super) fn stage(&self, shard: u16) -> &Stage {
        let stage = self.stages.iter().find(|stage| stage.shard == shard);
        stage.expect("only shards of this claim are looked at")
    }

    pub(super) fn taken(&self) -> usize {
        self.claims.len()
    }

    /// Remembers shards whose rows in flight changed.
    pub(super) fn change(&mut self, shards: Vec<u16>) {
        self.stirred.extend(&shards);
        self.changed.extend(shards);
    }

    /// Tells fresh hands which keys wait for another attempt.
    pub(super) async fn inform(&self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let fresh: Vec<u16> = {
            let mut holding = base.holding();
            let desk = &mut holding.desks[self.lane];
            let shards = self.stages.iter().filter(|stage| stage.hot || stage.later);
            shards.map(|stage| stage.shard).filter(|shard| !desk.part(*shard).informed).collect()
        };
        if fresh.is_empty() {
            return Ok(());
        }
        let shards: Vec<i16> = fresh.iter().map(|shard| number(*shard)).collect();
        let holders = base.sql.holders.query().bind(shards).fetch_all(conn).await?;
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        for row in holders {
            let (number, birth, shard) = (row.try_get(0)?, row.try_get(1)?, rows::shard(&row, 4)?);
            if desk.lane.topics.take(rows::text(&row, 3)?) {
                desk.part(shard).hand.hold(Some(rows::text(&row, 2)?), birth, number);
            }
        }
        fresh.into_iter().for_each(|shard| desk.part(shard).informed = true);
        Ok(())
    }

    /// Starts the claim in every shard that it may take rows of.
    pub(super) fn open(&self, base: &Base) {
        let mut holding = base.holding();
        for stage in self.stages.iter().filter(|stage| stage.hot || stage.later) {
            holding.keep(stage.shard, stage.held);
            let part = holding.desks[self.lane].part(stage.shard);
            part.hand.open(stage.held.newest, self.until);
        }
    }

    /// Takes what is due, on either shelf.
    pub(super) async fn take(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
        glance: &Glance,
    ) -> Result<(), Fault> {
        let begins_hot = base.holding().desks[self.lane].turns.begin_hot();
        if begins_hot {
            self.hot(base, conn).await?;
        }
        let fresh = self.taken();
        if self.claims.is_empty() {
            self.later(base, conn, glance).await?;
        } else {
            self.all_seen = !self.stages.iter().any(|stage| stage.later);
        }
        let later = self.taken() - fresh;
        if !begins_hot && !self.room.closed {
            self.hot(base, conn).await?;
        }
        let hot = self.taken() - later;
        // A competing claim that got nothing has had no turn.
        if self.rivals.is_none() || !self.claims.is_empty() {
            base.holding().desks[self.lane].turns.close(later, hot);
        }
        self.bury(base, conn).await
    }

    /// Renews the leases and names the hot rows in flight. What was lost meanwhile is not claimed.
    pub(super) async fn renew(
        mut self,
        base: &Base,
        conn: &mut PgConnection,
    ) -> Result<Vec<Claim>, Fault> {
        let renewals: Vec<Renewal> = self
            .stages
            .iter()
            .filter(|stage| stage.take || stage.runs_down || self.stirred.contains(&stage.shard))
            .map(|stage| {
                let (shard, held) = (stage.shard, stage.held);
                Renewal { shard, held, changed: self.changed.contains(&shard) }
            })
            .collect();
        let kept = renew(base, conn, self.until, &renewals).await?;
        for Renewal { shard, .. } in renewals.iter().filter(|one| !kept.contains(&one.shard)) {
            base.holding().lose(*shard);
            self.claims.retain(|claim| claim.address.shard != *shard);
        }
        Ok(self.claims)
    }
}
