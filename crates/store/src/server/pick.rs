//! What a claim picks, and what it must write down for it at the end.

use std::collections::{BTreeSet, VecDeque};

use event::{Cause, Claim, Millis, Want};

use super::base::Base;
use super::compete::Rivals;
use super::dialect::Dialect;
use super::fault::Fault;
use super::glance::Glance;
use super::lease::{Renewal, renew};
use super::stage::Stage;
use crate::own::{Holding, Room};

/// A claim under way, and those that follow it at once.
pub(super) struct Pick<'a> {
    pub(super) lane: usize,
    pub(super) room: Room,
    pub(super) now: Millis,
    pub(super) until: Millis,
    pub(super) stages: &'a mut [Stage],
    pub(super) claims: Vec<Claim>,
    /// How many rows this claim has taken before.
    pub(super) before: usize,
    /// Whether no more hot rows are to be looked at, and whether the last look showed not all.
    pub(super) full: bool,
    pub(super) cut: bool,
    /// What the claims took that ended before this one.
    ended: Vec<Vec<Claim>>,
    /// What the claims want that follow.
    follow: VecDeque<Want>,
    /// Whether every later row that is due was looked at.
    pub(super) all_seen: bool,
    /// Shards whose lease rows must name other hot rows.
    pub(super) changed: BTreeSet<u16>,
    /// Shards in which something was there to look at.
    pub(super) stirred: BTreeSet<u16>,
    /// Rows that are no events.
    pub(super) bad: Vec<(event::Address, u32, Cause)>,
    /// What a claim of competing relays knows of others; none, where shards are leased.
    pub(super) rivals: Option<Rivals>,
}

impl<'a> Pick<'a> {
    pub(super) fn new(lane: usize, want: Want, now: Millis, stages: &'a mut [Stage]) -> Pick<'a> {
        Pick {
            lane,
            room: Room::new(want),
            now,
            until: now + want.lease,
            stages,
            claims: Vec::new(),
            before: 0,
            full: false,
            cut: false,
            ended: Vec::new(),
            follow: VecDeque::new(),
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

    pub(super) fn stage_mut(&mut self, shard: u16) -> &mut Stage {
        let stage = self.stages.iter_mut().find(|stage| stage.shard == shard);
        stage.expect("only shards of this claim are looked at")
    }

    pub(super) fn taken(&self) -> usize {
        self.before + self.claims.len()
    }

    /// Lets other claims follow at once, of hot rows. They last as long as this one.
    pub(super) fn follow(mut self, wants: impl Iterator<Item = Want>) -> Pick<'a> {
        self.follow.extend(wants);
        self
    }

    /// Returns how many rows this claim and those that follow want at the most.
    pub(super) fn wanted(&self) -> usize {
        let left = self.room.want.limit - self.taken();
        self.follow.iter().fold(left, |sum, want| want.limit.saturating_add(sum))
    }

    /// Ends this claim, and starts the one that follows, if one does.
    pub(super) fn goes_on(&mut self, holding: &mut Holding) -> bool {
        let Some(want) = self.follow.pop_front() else { return false };
        self.room = Room::new(want);
        self.ended.push(std::mem::take(&mut self.claims));
        self.before = 0;
        if self.rivals.is_some() {
            return true;
        }
        for stage in self.stages.iter_mut().filter(|stage| stage.takes()) {
            stage.held.newest = stage.held.newest.next();
        }
        self.open(holding);
        true
    }

    /// Remembers shards whose rows in flight changed.
    pub(super) fn change(&mut self, shards: Vec<u16>) {
        self.stirred.extend(&shards);
        self.changed.extend(shards);
    }

    /// Starts the claim in every shard that it may take rows of.
    pub(super) fn open(&self, holding: &mut Holding) {
        for stage in self.stages.iter().filter(|stage| stage.takes()) {
            holding.keep(stage.shard, stage.held);
            let part = holding.desks[self.lane].part(stage.shard);
            part.hand.open(stage.held.newest, self.until);
        }
    }

    /// Takes what is due, on either shelf.
    pub(super) async fn take<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
        glance: &Glance<D>,
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
        if self.had_its_turn() {
            base.holding().desks[self.lane].turns.close(later, hot);
        }
        self.bury(base, conn).await
    }

    /// Takes more hot rows.
    pub(super) async fn more<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<(), Fault> {
        self.hot(base, conn).await?;
        self.bury(base, conn).await
    }

    /// Ends a claim of competing relays. Returns what it and those that followed took, how much
    /// room is left, and what it knows of others.
    pub(super) fn end(mut self) -> (Vec<Vec<Claim>>, Room, Rivals) {
        self.ended.push(self.claims);
        (self.ended, self.room, self.rivals.expect("relays that compete have rivals"))
    }

    /// Tells whether this was a turn: one that only keeps leases is none, nor is one that looked
    /// back and met only hot rows that it knew, nor a competing one that got nothing.
    fn had_its_turn(&self) -> bool {
        let fresh = |stage: &Stage| stage.hot && self.stirred.contains(&stage.shard);
        match self.rivals {
            Some(_) => !self.claims.is_empty(),
            None => self.stages.iter().any(|stage| stage.later || fresh(stage)),
        }
    }

    /// Renews the leases and names the hot rows in flight. Returns what each claim took; what was
    /// lost meanwhile is not claimed.
    pub(super) async fn renew<D: Dialect>(
        mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<Vec<Vec<Claim>>, Fault> {
        let renewals: Vec<Renewal> = {
            let holding = base.holding();
            let renewed = |stage: &&Stage| stage.runs_down || self.stirred.contains(&stage.shard);
            let stages = self.stages.iter().filter(renewed);
            let renewal = |&Stage { shard, held, .. }: &Stage| match self.changed.contains(&shard) {
                true => Renewal::naming(&holding, shard, held),
                false => Renewal { shard, held, out: None },
            };
            stages.map(renewal).collect()
        };
        let kept = renew(base, conn, self.until, &renewals).await?;
        for Renewal { shard, .. } in renewals.iter().filter(|one| !kept.contains(&one.shard)) {
            base.holding().lose(*shard);
            let claims = self.ended.iter_mut().chain([&mut self.claims]);
            claims.for_each(|claims| claims.retain(|claim| claim.address.shard != *shard));
        }
        self.ended.push(self.claims);
        self.ended.extend(self.follow.iter().map(|_| Vec::new()));
        Ok(self.ended)
    }
}
