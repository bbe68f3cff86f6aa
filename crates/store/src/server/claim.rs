//! A claim: look, take or keep the leases, then hand out later rows that are due, then hot rows.
//!
//! Only later rows are written. Hot rows are ours by the lease, whose row names them: they are read
//! first, and the renewal then tells which shards were still ours. A claim that fails is as if it
//! had never been, and costs nothing that other turns have in flight, unless it is in doubt whether
//! it was written down.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Address, Claim, Code, Fence, Millis, Outcome, StoreError, Want};

use super::base::{Base, another_server};
use super::compete::adopt;
use super::dialect::Dialect;
use super::fault::Fault;
use super::glance::{Glance, Glancing};
use super::informing::inform;
use super::lane::{Asks, KeptGlance};
use super::lapsing::set_down;
use super::pick::Pick;
use super::settle::take_in;
use super::sharing::share;
use super::taking::take;
use super::together::{ROWS, Turn};
use super::work::{Commit, Scope, Terms, Work};
use crate::own::{Desk, Held, May, Seen};

/// How long claims that fill up go by the same glance at the most. What was not there to be seen, a
/// retry that falls due or a shard that was empty, waits that long.
pub(super) const STILL: Duration = Duration::from_millis(40);

/// Claims for one lane, together with the others who wait to; maybe beside a settlement.
pub(super) async fn claim<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    want: Want,
    beside: bool,
) -> Result<Vec<Claim>, StoreError> {
    let mut lead = match asks.claims.ask(want, &base.turn).await {
        Turn::Told(claims) => return claims,
        Turn::Lead(lead) => lead,
    };
    lead.gather().await;
    loop {
        let welcome = welcome(base.holding().desks[lane].weight);
        let wants: Vec<Want> = lead.questions(welcome).into_iter().map(|want| *want).collect();
        // After the questions, so that whoever asks has its own outcomes taken in.
        take_in(base, &lead.turn);
        let since = if beside { None } else { Some(lead.since) };
        let claims = claim_all(base, lane, asks, since, &wants).await;
        let all = |(claims, want): (&Vec<Claim>, &Want)| claims.len() >= want.limit;
        let told = claims.iter().flatten().zip(&wants);
        lead.expect(told.filter(|told| all(*told)).count());
        if let Some(claims) = lead.tell(claims) {
            return claims;
        }
    }
}

/// Returns which claims are made together, where a row has so many bytes: as many as one may have.
pub(super) fn welcome(weight: usize) -> impl FnMut(&Want) -> bool {
    let (mut rows, mut lease) = (0, None);
    move |want| {
        rows = want.limit.saturating_add(rows);
        let lasts_as_long = *lease.get_or_insert(want.lease) == want.lease;
        lasts_as_long && rows <= ROWS && weight.saturating_mul(rows) <= want.bytes
    }
}

/// Makes the first of these claims, and those that follow if only hot rows wait.
async fn claim_all<D: Dialect>(
    base: &Base<D>,
    lane: usize,
    asks: &Asks<D>,
    since: Option<Instant>,
    wants: &[Want],
) -> Result<Vec<Vec<Claim>>, StoreError> {
    let (era, lease) = (base.holding().era, wants[0].lease);
    adopt(base, lease).await?;
    let changes = base.holding().changes;
    // Whoever asked while the last claim was made, or whose outcomes are being written down, may be
    // told what that one saw.
    let still = |kept: &KeptGlance<D>| {
        let in_time = since.is_none_or(|since| since < kept.used);
        in_time && kept.made.elapsed() < STILL && kept.changes == changes
    };
    let kept = asks.kept().take().filter(still);
    let is_fresh = kept.is_none();
    let (made, glance) = match kept {
        Some(kept) => (kept.made, kept.glance),
        None => {
            let made = Instant::now();
            (made, base.work(&mut Glancing { lane, seen: Millis(i64::MIN) }).await?)
        }
    };
    share(base, glance.looks.len(), glance.now, lease).await?;
    let claiming = match Claiming::new(base, era, lane, wants, glance, is_fresh) {
        Some(claiming) => claiming.prepared(base).await,
        None => Ok(None),
    };
    let Some(mut claiming) = claiming.inspect_err(|_| asks.claimed(false))? else {
        asks.claimed(false);
        return Ok(vec![Vec::new(); wants.len()]);
    };
    let told = inform(base, (era, lane), &claiming.stages).await;
    told.inspect_err(|_| asks.claimed(false))?;
    let claims = base.work(&mut claiming).await;
    if base.holding().era != era {
        // It went on while everything was let go.
        base.holding().forget();
        return Err(another_server());
    }
    asks.claimed(claims.is_ok() && claiming.full);
    if claims.is_err() {
        claiming.give_up(base);
    } else if claiming.full && !claiming.writes {
        let (glance, used) = (claiming.into_glance(), Instant::now());
        *asks.kept() = Some(KeptGlance { glance, made, used, changes });
    }
    claims
}

/// What a claim does with one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) shard: u16,
    /// How the shard is held, under the fence of this claim if it takes rows.
    pub(super) held: Held,
    /// The first fence that may be this claim's.
    pub(super) first: Fence,
    /// The first hot row that was seen, or the last that was claimed; the lowest comes first.
    pub(super) front: i64,
    /// Where the cursor stood.
    pub(super) cursor: i64,
    /// Whether the lease is free, and to be taken.
    pub(super) take: bool,
    /// Whether hot rows are ahead, or may be.
    pub(super) hot: bool,
    /// Whether later rows are due, or may be.
    pub(super) later: bool,
    /// Whether a claim of this lane has outlived its lease.
    pub(super) lapses: bool,
    /// Whether the lease must be renewed in any case.
    pub(super) runs_down: bool,
}

impl Stage {
    /// Tells whether the claim may take rows of the shard.
    pub(super) fn takes(&self) -> bool {
        self.hot || self.later
    }
}

struct Claiming<D: Dialect> {
    era: u64,
    lane: usize,
    want: Want,
    /// The claims that follow at once.
    follow: Vec<Want>,
    now: Millis,
    glance: Glance<D>,
    stages: Vec<Stage>,
    /// The shards in which something was set down that had outlived its lease.
    lapsed: Vec<u16>,
    writes: bool,
    /// Whether there are free leases that could not be taken, so that not all was looked at.
    left_out: bool,
    /// Whether leases are being renewed, or were.
    renewing: bool,
    /// Whether it may or may not have been written down.
    doubted: bool,
    /// Whether the claims took all that they wanted, so that there may be more.
    full: bool,
    /// Whether the glance was made for this claim.
    is_fresh: bool,
}

impl<D: Dialect> Claiming<D> {
    /// Decides what each shard allows. Returns `None` when there is nothing to do.
    fn new(
        base: &Base<D>,
        era: u64,
        lane: usize,
        wants: &[Want],
        glance: Glance<D>,
        is_fresh: bool,
    ) -> Option<Claiming<D>> {
        let want = wants[0];
        let mut holding = base.holding();
        let sharing = base.sharing();
        let rests = sharing.rests().is_some();
        let (mut stages, mut elsewhere, mut left_out) = (Vec::new(), false, false);
        for look in &glance.looks {
            if holding.lost(look) {
                holding.lose(look.shard);
            }
            let may = holding.may(lane, look, want.lease);
            left_out |= rests && may == May::Take;
            elsewhere |= may == May::Nothing;
            let (take, keep) = (may == May::Take && !rests, may == May::Keep);
            let stays = !sharing.heirs.contains_key(&look.shard);
            let lapses = keep && holding.desks[lane].overdue(look.shard, look.now);
            let hot = take || keep && stays && look.ahead;
            let later = take || keep && stays && (look.is_due() || lapses);
            let runs_down = holding.runs_down(look, want.lease);
            if !(hot || later || lapses || runs_down) {
                continue;
            }
            let (shard, front) = (look.shard, look.front);
            let (held, first) = next(holding.held(shard), hot || later);
            let cursor = holding.desks[lane].cursor(shard);
            stages.push(Stage {
                shard,
                held,
                first,
                front,
                cursor,
                take,
                hot,
                later,
                lapses,
                runs_down,
            });
        }
        if stages.is_empty() && !elsewhere && is_fresh {
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
    async fn prepared(mut self, base: &Base<D>) -> Result<Option<Claiming<D>>, StoreError> {
        if !self.stages.iter().any(|stage| stage.take || stage.lapses) {
            return Ok(Some(self));
        }
        let lapses = self.stages.iter().filter(|stage| stage.lapses);
        let lapses = lapses.map(|stage| (stage.shard, stage.held.mark)).collect();
        match set_down(base, (self.era, self.lane), self.now, lapses).await {
            Ok(lapsed) => self.lapsed = lapsed,
            // Another has their leases open: they wait, and nothing else does.
            Err(error) if error.cause().code == Code::StoreBusy => {
                self.stages.retain(|stage| !stage.lapses);
                self.left_out = true;
            }
            Err(error) => return Err(error),
        }
        let free = self.stages.iter().filter(|stage| stage.take).map(|stage| stage.shard);
        let taken = take(base, self.era, self.want.lease, free.collect()).await?;
        let holding = base.holding();
        self.stages.retain_mut(|stage| {
            if let Some(fence) = taken.get(&stage.shard) {
                (stage.held, stage.first) = (Held { mark: *fence, newest: *fence }, *fence);
                stage.cursor = 0;
            }
            let is_taken = taken.contains_key(&stage.shard);
            self.left_out |= stage.take && !is_taken;
            is_taken || !stage.take && holding.held(stage.shard).is_some()
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
    fn give_up(&self, base: &Base<D>) {
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
    fn into_glance(mut self) -> Glance<D> {
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
        for row in base.db.lock(conn, base.now(), &shards, &[]).await? {
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

/// Returns how a claim holds a shard, and the first fence that may be its own.
fn next(held: Option<Held>, takes: bool) -> (Held, Fence) {
    let none = Held { mark: Fence::default(), newest: Fence::default() };
    let held = held.unwrap_or(none);
    let first = held.newest.next();
    let newest = if takes { first } else { held.newest };
    (Held { newest, ..held }, first)
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

/// Moves hot rows that nobody settled in time to the later table, where they are due.
pub(super) async fn lapse<D: Dialect>(
    base: &Base<D>,
    conn: &mut D::Conn,
    rows: Vec<(u16, i64)>,
    now: Millis,
) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    base.db.lapse(conn, &rows, now).await
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
