//! One claim under way: what each shard allows, what is taken of it, and how it is undone.
//!
//! Only later rows are written. Hot rows are ours by the lease, whose row names them: they are read
//! first, and the renewal then tells which shards were still ours. A claim that fails is as if it
//! had never been, and costs nothing that other turns have in flight, unless it is in doubt whether
//! it was written down.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use event::{Address, Claim, Fence, Millis, Outcome, StoreError, Want};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::glance::Glance;
use super::lapsing::{SetDown, set_down};
use super::pick::Pick;
use super::stage::Stage;
use super::taking::take;
use super::work::{Commit, Scope, Terms, Work};
use crate::own::{Desk, Held, May, Seen};

/// A claim under way.
pub(super) struct Claiming<D: Dialect> {
    era: u64,
    lane: usize,
    want: Want,
    /// The claims that follow at once.
    follow: Vec<Want>,
    now: Millis,
    glance: Glance<D>,
    pub(super) stages: Vec<Stage>,
    /// The shards in which something was set down that had outlived its lease.
    lapsed: Vec<u16>,
    pub(super) writes: bool,
    /// Whether there are shards whose leases another has open, so that not all was looked at.
    left_out: bool,
    /// Whether leases are being renewed, or were.
    renewing: bool,
    /// Whether it may or may not have been written down.
    doubted: bool,
    /// Whether the claims took all that they wanted, so that there may be more.
    pub(super) full: bool,
    /// Whether the glance was made for this claim.
    is_fresh: bool,
}

impl<D: Dialect> Claiming<D> {
    /// Decides what each shard allows. Returns `None` when there is nothing to do.
    pub(super) fn new(
        base: &Base<D>,
        era: u64,
        lane: usize,
        wants: &[Want],
        glance: Glance<D>,
        is_fresh: bool,
    ) -> Option<Claiming<D>> {
        let want = wants[0];
        let (mut holding, mut sharing) = (base.holding(), base.sharing());
        let (mut stages, mut elsewhere, mut left_out) = (Vec::new(), false, false);
        for look in &glance.looks {
            if holding.lost(look) {
                holding.lose(look.shard);
            }
            if holding.may(lane, look, want.lease) == May::Nothing {
                elsewhere = true;
                sharing.shut.forget(look.shard);
                continue;
            }
            let stays = !sharing.heirs.contains_key(&look.shard);
            let stage = Stage::of(&holding, lane, look, stays, want.lease);
            // A lease that another has open can be neither taken nor renewed.
            match sharing.shut.rests(look.shard) {
                Some(_) => left_out |= stage.is_some(),
                None => stages.extend(stage),
            }
        }
        if stages.is_empty() && !elsewhere && !left_out && is_fresh {
            holding.desks[lane].seen = Some(Seen { now: glance.now, newest: glance.newest });
        }
        holding.desks[lane].stands_by = elsewhere && holding.shards().is_empty();
        let writes = stages.iter().any(|stage| stage.later);
        // Retries have their share of each claim, so those are made one by one.
        let follow = if writes { Vec::new() } else { wants[1..].to_vec() };
        let claiming = Claiming {
            era,
            lane,
            want,
            follow,
            now: glance.now,
            glance,
            stages,
            lapsed: Vec::new(),
            writes,
            left_out,
            renewing: false,
            doubted: false,
            full: false,
            is_fresh,
        };
        (!claiming.stages.is_empty()).then_some(claiming)
    }

    /// Takes leases that are free, and sets down what has outlived its claim: each by itself, so
    /// that none of it undoes the rest. Returns `None` when there is nothing left to do.
    pub(super) async fn prepared(
        mut self,
        base: &Base<D>,
    ) -> Result<Option<Claiming<D>>, StoreError> {
        if !self.stages.iter().any(|stage| stage.take || stage.lapses) {
            return Ok(Some(self));
        }
        let (era, lane, lease) = (self.era, self.lane, self.want.lease);
        let lapses = self.stages.iter().filter(|stage| stage.lapses);
        let lapses = lapses.map(|stage| (stage.shard, stage.held.mark)).collect();
        let SetDown { done, mut shut } =
            set_down(base, (era, lane), self.now, lease, &lapses).await?;
        self.lapsed.extend(done);
        let free = self.stages.iter().filter(|stage| stage.take).map(|stage| stage.shard);
        let (taken, more) = take(base, era, lease, free.collect()).await?;
        shut.extend(more);
        base.sharing().shut.say(&shut, lease)?;
        self.left_out |= !shut.is_empty();
        let holding = base.holding();
        self.stages.retain_mut(|stage| {
            if let Some(fence) = taken.get(&stage.shard) {
                (stage.held, stage.first) = (Held { mark: *fence, newest: *fence }, *fence);
                stage.cursor = 0;
            }
            let is_taken = taken.contains_key(&stage.shard);
            self.left_out |= stage.take && !is_taken;
            // A shard whose lease another has open waits, and nothing else does.
            let stays = !stage.take && !shut.contains(&stage.shard);
            is_taken || stays && holding.held(stage.shard).is_some()
        });
        drop(holding);
        self.writes = self.stages.iter().any(|stage| stage.later);
        Ok((!self.stages.is_empty()).then_some(self))
    }

    fn scope(&self) -> Scope {
        if self.writes || !D::ONE_RENEWAL { Scope::Transaction } else { Scope::Statement }
    }

    /// Gives up what a claim that failed has in hand, as if it had never been. Where it may have
    /// been written down, only taking the lease anew tells; hot rows that a lease names in vain do
    /// no harm.
    pub(super) fn give_up(&self, base: &Base<D>) {
        let mut holding = base.holding();
        let alone = self.scope() == Scope::Statement && self.renewing;
        for stage in &self.stages {
            match self.doubted && (stage.later || alone) {
                true => holding.lose(stage.shard),
                false => undo(&mut holding.desks[self.lane], stage, self.now),
            }
        }
    }

    /// Returns what was seen, less what was claimed of it.
    pub(super) fn into_glance(mut self) -> Glance<D> {
        for stage in self.stages {
            let mut looks = self.glance.looks.iter_mut();
            if let Some(look) = looks.find(|look| look.shard == stage.shard) {
                look.front = stage.front;
            }
        }
        self.glance
    }

    /// Opens the leases, so that nobody changes them before the end.
    async fn open(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        let shards: Vec<u16> = self.stages.iter().map(|stage| stage.shard).collect();
        let mut marks = BTreeMap::new();
        for row in base.db.open_leases(conn, base.now(), &shards, &[]).await? {
            self.now = row.now;
            if row.owner == base.owner && row.until > Millis(0) {
                marks.insert(row.shard, row.mark);
            }
        }
        self.stages.retain(|stage| {
            let is_ours = marks.get(&stage.shard) == Some(&stage.held.mark);
            if !is_ours {
                base.holding().lose(stage.shard);
            }
            is_ours
        });
        Ok(())
    }
}

#[async_trait]
impl<D: Dialect> Work<D> for Claiming<D> {
    type Out = Vec<Vec<Claim>>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, self.scope()).of(self.era).once()
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        if self.writes {
            self.open(base, conn).await?;
        }
        let pick = Pick::new(self.lane, self.want, self.now, &mut self.stages);
        let mut pick = pick.follow(self.follow.drain(..));
        pick.change(std::mem::take(&mut self.lapsed));
        pick.open(&mut base.holding());
        pick.take(base, conn, &self.glance).await?;
        let all_seen = pick.all_seen;
        self.full = pick.wanted() == 0;
        self.renewing = true;
        let claims = pick.renew(base, conn).await?;
        let seen = Seen { now: self.now, newest: self.glance.newest };
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        desk.seen = (all_seen && self.is_fresh && !self.left_out).then_some(seen);
        let sizes = || claims.iter().flatten().map(|claim| claim.event.payload.len());
        if let Some(weight) = sizes().sum::<usize>().checked_div(sizes().count()) {
            desk.weight = weight;
        }
        Ok(claims)
    }

    fn doubted(&mut self) {
        self.doubted = true;
    }
}

/// Puts back what a claim took of a shard, and lets the next look begin where it began: rows that
/// are no events were passed, and are there as before.
fn undo(desk: &mut Desk, stage: &Stage, now: Millis) {
    let hand = &desk.part(stage.shard).hand;
    let fences = || (stage.first.0..=stage.held.newest.0).map(Fence);
    let mut taken: Vec<(Address, Fence)> = Vec::new();
    for (address, _) in hand.in_flight() {
        let fence = fences().find(|fence| hand.has(address, *fence));
        taken.extend(fence.map(|fence| (address, fence)));
    }
    let release = Outcome::Release { after: Duration::ZERO };
    for (address, fence) in taken {
        desk.settle(address, fence, &release, now);
    }
    desk.part(stage.shard).sight.miss(stage.cursor + 1);
    desk.seen = None;
}
