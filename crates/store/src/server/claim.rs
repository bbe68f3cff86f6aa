//! A claim: look, take or keep the leases, then hand out later rows that are due, then hot rows.
//!
//! Only later rows are written. Hot rows are ours by the lease, whose row names them: they are read
//! first, and the renewal then tells which shards were still ours.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Address, Claim, Fence, Leased, Millis, StoreError, Want};

use super::base::{Base, another_server};
use super::compete::{adopt, unchanged};
use super::dialect::Dialect;
use super::fault::Fault;
use super::glance::{Glance, Glancing};
use super::lane::{Asks, KeptGlance};
use super::pick::Pick;
use super::settle::take_in;
use super::sharing::share;
use super::together::{ROWS, Turn};
use super::work::{Commit, Scope, Work};
use crate::own::{Held, May, Seen};

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
    let Some(mut claiming) = Claiming::new(base, era, lane, wants, glance, is_fresh) else {
        asks.claimed(false);
        return Ok(vec![Vec::new(); wants.len()]);
    };
    let claims = base.work(&mut claiming).await;
    if base.holding().era != era {
        // It went on while everything was let go.
        base.holding().forget();
        return Err(another_server());
    }
    asks.claimed(claims.is_ok() && claiming.full);
    if claims.is_err() {
        let mut holding = base.holding();
        claiming.stages.iter().for_each(|stage| holding.lose(stage.shard));
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
    /// The first hot row that was seen, or the last that was claimed; the lowest comes first.
    pub(super) front: i64,
    /// Whether the lease is taken, not kept.
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

/// The hot rows in flight of each shard, and until when.
type Out = BTreeMap<u16, Vec<(i64, Millis)>>;

struct Claiming<D: Dialect> {
    era: u64,
    lane: usize,
    want: Want,
    /// The claims that follow at once.
    follow: Vec<Want>,
    now: Millis,
    glance: Glance<D>,
    stages: Vec<Stage>,
    writes: bool,
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
        let (mut stages, mut elsewhere) = (Vec::new(), false);
        for look in &glance.looks {
            if holding.lost(look) {
                holding.lose(look.shard);
            }
            let may = holding.may(lane, look, want.lease);
            elsewhere |= may == May::Nothing;
            let (take, keep) = (may == May::Take, may == May::Keep);
            let stays = !sharing.heirs.contains_key(&look.shard);
            let lapses = keep && holding.desks[lane].overdue(look.shard, look.now);
            let hot = take || keep && stays && look.ahead;
            let later = take || keep && stays && (look.is_due() || lapses);
            let runs_down = holding.runs_down(look, want.lease);
            if !(hot || later || lapses || runs_down) {
                continue;
            }
            let shard = look.shard;
            let none = Held { mark: Fence::default(), newest: Fence::default() };
            let mut held = holding.held(shard).unwrap_or(none);
            if hot || later {
                held.newest = held.newest.next();
            }
            let front = look.front;
            stages.push(Stage { shard, held, front, take, hot, later, lapses, runs_down });
        }
        if stages.is_empty() && !elsewhere && is_fresh {
            holding.desks[lane].seen = Some(Seen { now: glance.now, newest: glance.newest });
        }
        holding.desks[lane].stands_by = elsewhere && holding.shards().is_empty();
        let writes = stages.iter().any(|stage| stage.take || stage.later || stage.lapses);
        // Retries have their share of each claim, so those are made one by one.
        let follow = if writes { Vec::new() } else { wants[1..].to_vec() };
        let (now, full) = (glance.now, false);
        let claiming =
            Claiming { era, lane, want, follow, now, glance, stages, writes, full, is_fresh };
        (!claiming.stages.is_empty()).then_some(claiming)
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

    /// Opens the leases, so that nobody changes them before the end, and takes those that are free.
    async fn open(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
        let shards: Vec<u16> = self.stages.iter().map(|stage| stage.shard).collect();
        let taken = self.stages.iter().filter(|stage| stage.take);
        let taken: Vec<u16> = taken.map(|stage| stage.shard).collect();
        let mut ours: Out = BTreeMap::new();
        for row in base.db.lock(conn, base.now(), &shards, &taken).await? {
            self.now = row.now;
            let mine = row.owner == base.owner;
            let stage = self.stages.iter().find(|stage| stage.shard == row.shard);
            let may = stage.is_some_and(|stage| match stage.take {
                true => mine || !Leased::Shard.runs(row.until, row.now, self.want.lease),
                false => mine && row.mark == stage.held.mark && row.until > Millis(0),
            });
            if may {
                ours.insert(row.shard, row.out);
            }
        }
        self.stages.retain(|stage| {
            let is_ours = ours.contains_key(&stage.shard);
            if !is_ours {
                base.holding().lose(stage.shard);
            }
            is_ours
        });
        self.take(base, conn, &ours).await
    }

    /// Takes leases. What their last owners had in flight, even if that was us, is unexplained.
    async fn take(&mut self, base: &Base<D>, conn: &mut D::Conn, out: &Out) -> Result<(), Fault> {
        let taken = || self.stages.iter().filter(|stage| stage.take).map(|stage| stage.shard);
        let shards: Vec<u16> = taken().collect();
        if shards.is_empty() {
            return Ok(());
        }
        unchanged(base, conn).await?;
        let out = taken().flat_map(|shard| out[&shard].iter().map(move |(seq, _)| (shard, *seq)));
        lapse(base, conn, out.collect(), self.now).await?;
        base.db.lapse_later(conn, &shards, self.now).await?;
        let until = self.now + self.want.lease;
        for (shard, fence) in base.db.take(conn, &base.owner, until, &shards).await? {
            base.holding().take(shard, fence);
            let stage = self.stages.iter_mut().find(|stage| stage.shard == shard);
            let stage = stage.expect("only what was named is taken");
            stage.held = Held { mark: fence, newest: fence };
        }
        Ok(())
    }

    /// Sets down what this lane's claims had in flight that have outlived their leases. Rows whose
    /// outcomes are being written down at this moment are spared, and their shards with them.
    async fn lapse(&self, base: &Base<D>, conn: &mut D::Conn) -> Result<Vec<u16>, Fault> {
        let (mut lapsed, mut hot) = (Vec::new(), Vec::new());
        {
            let (mut holding, ending) = (base.holding(), base.ending());
            let desk = &mut holding.desks[self.lane];
            for Stage { shard, .. } in self.stages.iter().filter(|stage| stage.lapses) {
                let outlived: Vec<Address> = desk.outlived(*shard, self.now);
                if outlived.iter().any(|address| ending.contains(address)) {
                    continue;
                }
                let rows = desk.lapse(*shard, self.now);
                hot.extend(rows.into_iter().map(|(seq, _)| (*shard, seq)));
                lapsed.push(*shard);
            }
        }
        lapse(base, conn, hot, self.now).await?;
        Ok(lapsed)
    }
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
    const COMMIT: Commit = Commit::Quick;

    fn scope(&self) -> Scope {
        if self.writes || !D::ONE_RENEWAL { Scope::Transaction } else { Scope::Statement }
    }

    fn repeats(&self) -> bool {
        false
    }

    fn era(&self) -> Option<u64> {
        Some(self.era)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let mut lapsed = Vec::new();
        if self.writes {
            self.open(base, conn).await?;
            lapsed = self.lapse(base, conn).await?;
        }
        let pick = Pick::new(self.lane, self.want, self.now, &mut self.stages);
        let mut pick = pick.follow(self.follow.drain(..));
        pick.change(lapsed);
        pick.inform(base, conn).await?;
        pick.open(&mut base.holding());
        pick.take(base, conn, &self.glance).await?;
        let all_seen = pick.all_seen;
        self.full = pick.wanted() == 0;
        let claims = pick.renew(base, conn).await?;
        let seen = Seen { now: self.now, newest: self.glance.newest };
        let mut holding = base.holding();
        let desk = &mut holding.desks[self.lane];
        desk.seen = (all_seen && self.is_fresh).then_some(seen);
        let sizes = || claims.iter().flatten().map(|claim| claim.event.payload.len());
        if let Some(weight) = sizes().sum::<usize>().checked_div(sizes().count()) {
            desk.weight = weight;
        }
        Ok(claims)
    }
}
