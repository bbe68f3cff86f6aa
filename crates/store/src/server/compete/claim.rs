//! A claim of a competing relay: it opens the line of a shard for a moment, and names there what it
//! takes. Where that is not enough, it opens the lines of the others as well, in a transaction of
//! their own: nobody waits for a line while he has one.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Address, Claim, Fence, Millis, Moment, Shelf, StoreError, Want};

use super::super::base::Base;
use super::super::claim::{STILL, welcome};
use super::super::dialect::Dialect;
use super::super::fault::Fault;
use super::super::lapsing::lapse;
use super::super::pick::Pick;
use super::super::sharing::attend;
use super::super::stage::Stage;
use super::super::together::Turn;
use super::super::work::{Commit, Scope, Terms, Work};
use super::adopt::{adopt, unchanged};
use super::lane::{KeptSeen, Lane};
use super::see::{Seeing, Seen, Waits, longest};
use super::win::Rivals;
use crate::Strategy;
use crate::compete::Line;
use crate::own::{Held, Passed, Room};

/// What some claims took that were made at the same time, and until when.
pub(super) struct Taken {
    pub(super) claims: Vec<Vec<Claim>>,
    /// What later rows had behind them, by number.
    pub(super) trails: HashMap<i64, Vec<Moment>>,
    /// How many rows others were quicker to claim.
    pub(super) outrun: u64,
    pub(super) now: Millis,
    pub(super) until: Millis,
}

/// Claims for one lane, together with the others who wait to.
pub(super) async fn claim<D: Dialect>(
    lane: &Lane<D>,
    want: Want,
) -> Result<Vec<Claim>, StoreError> {
    let mut lead = match lane.claims.ask(want, &lane.turn).await {
        Turn::Told(claims) => return claims,
        Turn::Lead(lead) => lead,
    };
    loop {
        let weight = lane.base.holding().desks[lane.index].weight;
        let wants = lead.questions(welcome(weight)).into_iter().map(|want| *want).collect();
        if let Some(claims) = lead.tell(claim_all(lane, lead.since, wants).await) {
            return claims;
        }
    }
}

/// Makes the first of these claims, and those that follow if only hot rows wait.
async fn claim_all<D: Dialect>(
    lane: &Lane<D>,
    since: Instant,
    wants: Vec<Want>,
) -> Result<Vec<Vec<Claim>>, StoreError> {
    let (base, lease) = (&*lane.base, wants[0].lease);
    let (era, all) = (base.holding().era, wants.len());
    adopt(base, lease).await?;
    // Whoever asked while the last claim was made may be told what that one saw.
    let still = |kept: &KeptSeen<D>| since < kept.used && kept.made.elapsed() < STILL;
    let kept = lane.kept().take().filter(|kept| kept.era == era && still(kept));
    let (made, seen) = match kept {
        Some(kept) => (kept.made, kept.seen),
        None => {
            let made = Instant::now();
            let mut seeing = Seeing { lane: lane.index, lease, start: &lane.start };
            (made, base.work(&mut seeing).await?)
        }
    };
    attend(base, usize::MAX, seen.glance.now, lease).await?;
    if !seen.stirs(lease) {
        lane.pace().claimed(0);
        return Ok(vec![Vec::new(); all]);
    }
    if lane.pace().full() {
        let mut holding = base.holding();
        let desk = &mut holding.desks[lane.index];
        seen.waits.iter().for_each(|waits| desk.part(waits.shard).passed = Passed::default());
    }
    let mut claiming = Claiming::new(lane, era, wants, seen);
    while claiming.goes_on() {
        if let Err(error) = claiming.step(base).await {
            // It is in doubt how far the lane has looked.
            let mut holding = base.holding();
            let shards = claiming.seen.waits.iter().map(|waits| waits.shard);
            shards.for_each(|shard| holding.desks[lane.index].clear(shard));
            holding.desks[lane.index].outrun += std::mem::take(&mut claiming.taken.outrun);
            if claiming.taken.claims.iter().all(Vec::is_empty) {
                return Err(error);
            }
            break;
        }
    }
    let plenty = claiming.is_plenty();
    lane.pace().plenty = plenty;
    if !claiming.full {
        // There is nothing left for those who follow.
        claiming.taken.claims.resize(claiming.wants.len(), Vec::new());
    }
    let Claiming { mut seen, taken, .. } = claiming;
    let claims = lane.keep(taken, era);
    if plenty {
        // The next one begins at another line.
        seen.waits.rotate_left(1);
        *lane.kept() = Some(KeptSeen { seen, made, used: Instant::now(), era });
    }
    Ok(claims)
}

struct Claiming<D: Dialect> {
    era: u64,
    lane: usize,
    wants: Vec<Want>,
    seen: Seen<D>,
    /// Shards in which hot rows wait, and whose lines were not opened.
    left: Vec<u16>,
    /// Whether lines were opened, or tried.
    begun: bool,
    /// Whether one line is opened at a time, because the last claim found enough in one.
    narrow: bool,
    /// How much room the claim under way has.
    room: Room,
    /// Whether nothing more is to be taken, and whether the last look showed not all.
    full: bool,
    cut: bool,
    taken: Taken,
}

/// What was done while some lines were open.
struct Step {
    /// Whose lines were opened, and their fences from here on.
    opened: Vec<(u16, Fence)>,
    /// What was taken: for the claim under way, and for each that followed.
    claims: Vec<Vec<Claim>>,
    rivals: Rivals,
    room: Room,
    full: bool,
    cut: bool,
}

impl<D: Dialect> Claiming<D> {
    fn new(lane: &Lane<D>, era: u64, mut wants: Vec<Want>, seen: Seen<D>) -> Claiming<D> {
        let (now, lease) = (seen.glance.now, wants[0].lease);
        // Retries have their share of each claim, so those are made one by one.
        let retries = |waits: &Waits| seen.is_due(waits) || seen.lapses(waits, lease);
        if seen.astray || seen.waits.iter().any(retries) {
            wants.truncate(1);
        }
        let ahead = seen.waits.iter().filter(|waits| waits.ahead);
        let left = ahead.map(|waits| waits.shard).collect();
        let (claims, trails, until) = (vec![Vec::new()], HashMap::new(), now + lease);
        let taken = Taken { claims, trails, outrun: 0, now, until };
        let (room, narrow, lane) = (Room::new(wants[0]), lane.pace().plenty, lane.index);
        let (begun, full, cut) = (false, false, false);
        Claiming { era, lane, wants, seen, left, begun, narrow, room, full, cut, taken }
    }

    fn lease(&self) -> Duration {
        self.wants[0].lease
    }

    /// Tells whether lines are to be opened, or opened as well.
    fn goes_on(&self) -> bool {
        !self.begun || !self.full && !self.left.is_empty()
    }

    /// Tells whether one line had as much as was wanted.
    fn is_plenty(&self) -> bool {
        let hot = self.taken.claims.iter().flatten().map(|claim| claim.address);
        let hot = hot.filter(|address| address.shelf == Shelf::Hot);
        let lines: BTreeSet<u16> = hot.map(|address| address.shard).collect();
        self.cut && lines.len() == 1
    }

    /// Takes in what was done. Where one line was not enough, all others are opened.
    fn keep(&mut self, step: Step, tried: &[u16]) {
        let mut claims = step.claims.into_iter();
        let under_way = self.taken.claims.last_mut().expect("a claim is under way");
        under_way.extend(claims.next().into_iter().flatten());
        self.taken.claims.extend(claims);
        self.taken.trails.extend(step.rivals.trails);
        self.taken.outrun += step.rivals.outrun;
        self.left.retain(|shard| !tried.contains(shard));
        for waits in &mut self.seen.waits {
            let opened = step.opened.iter().find(|(shard, _)| *shard == waits.shard);
            waits.fence = opened.map_or(waits.fence, |(_, fence)| *fence);
        }
        self.narrow &= step.opened.is_empty();
        (self.begun, self.room) = (true, step.room);
        (self.full, self.cut) = (step.full, step.cut);
    }

    /// Opens lines, and claims from them.
    async fn step(&mut self, base: &Base<D>) -> Result<(), StoreError> {
        let (mut lines, most) = self.lines();
        let all: Vec<u16> = lines.iter().map(|(shard, _)| *shard).collect();
        if base.strategy == Strategy::Preempt && !lines.is_empty() {
            let (now, shards) = (self.seen.glance.now, all.clone());
            let named = base.work(&mut Preempting { now, shards, most }).await?;
            lines.retain(|(shard, _)| named.contains(shard));
        }
        let step = base.work(&mut Opening { claiming: self, lines, most }).await?;
        // Whoever does not wait tries as many as it takes.
        let tried = match base.strategy {
            Strategy::Cas => all.into_iter().take(most).collect(),
            _ if step.opened.len() == most => step.opened.iter().map(|(shard, _)| *shard).collect(),
            _ => all,
        };
        self.keep(step, &tried);
        Ok(())
    }

    /// Returns which lines are to be opened and how many at the most: those in which a claim is
    /// over and one in which hot rows wait, or all others.
    fn lines(&self) -> (Vec<(u16, Fence)>, usize) {
        let lapses = |waits: &Waits| !self.begun && self.seen.lapses(waits, self.lease());
        let waits = |waits: &Waits| !lapses(waits) && self.left.contains(&waits.shard);
        let line = |waits: &Waits| (waits.shard, waits.fence);
        let all = || self.seen.waits.iter();
        let mut lines: Vec<(u16, Fence)> = all().filter(|it| lapses(it)).map(line).collect();
        let most = lines.len() + if self.narrow { 1 } else { self.left.len() };
        lines.extend(all().filter(|it| waits(it)).map(line));
        (lines, most)
    }

    /// Goes on with the claim under way.
    fn pick<'s>(&self, now: Millis, stages: &'s mut [Stage], lines: &[Line]) -> Pick<'s> {
        let at = self.taken.claims.len() - 1;
        let mut pick = Pick::new(self.lane, self.wants[at], now, stages);
        (pick.room, pick.before) = (self.room.clone(), self.taken.claims[at].len());
        pick.rivals = Some(Rivals::new(now, lines));
        // Retries may have fallen due since the look, or claims run out: such a claim is alone too.
        match pick.stages.iter().any(|stage| stage.later) {
            true => pick,
            false => pick.follow(self.wants[at + 1..].iter().copied()),
        }
    }

    /// Says where there may be what.
    fn stages(&self, open: &[Line], lapsed: &BTreeSet<u16>, now: Millis) -> Vec<Stage> {
        let nobody = Held { mark: Fence::default(), newest: Fence::default() };
        let due = |waits: &Waits| waits.due.is_some_and(|due| due <= now);
        let stage = |waits: &Waits| Stage {
            shard: waits.shard,
            held: nobody,
            first: Fence::default(),
            front: 0,
            cursor: 0,
            take: false,
            hot: waits.ahead && open.iter().any(|line| line.shard == waits.shard),
            later: !self.begun && (self.seen.astray || due(waits) || lapsed.contains(&waits.shard)),
            lapses: false,
            runs_down: false,
        };
        self.seen.waits.iter().map(stage).collect()
    }
}

/// Writes the relay's name into lines before they are opened, for so long that nobody else waits if
/// it dies.
struct Preempting {
    now: Millis,
    shards: Vec<u16>,
    most: usize,
}

/// How long a name in a line stands: longer than a claim takes.
const NAMED: Duration = Duration::from_secs(5);

#[async_trait]
impl<D: Dialect> Work<D> for Preempting {
    type Out = Vec<u16>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Vec<u16>, Fault> {
        let until = (self.now + NAMED, longest(NAMED));
        base.db.preempt(conn, base.now(), &base.owner, until, &self.shards, self.most).await
    }
}

/// One transaction of a claim: lines are open from its first statement to its end.
struct Opening<'a, D: Dialect> {
    claiming: &'a Claiming<D>,
    lines: Vec<(u16, Fence)>,
    most: usize,
}

#[async_trait]
impl<D: Dialect> Work<D> for Opening<'_, D> {
    type Out = Step;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction).of(self.claiming.era).once()
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Step, Fault> {
        let (claiming, db) = (self.claiming, &base.db);
        let mut lines = match self.lines.is_empty() {
            true => Vec::new(),
            false => {
                let (strategy, owner) = (base.strategy, &base.owner);
                db.open_lines(conn, strategy, base.now(), owner, &self.lines, self.most).await?
            }
        };
        let now = match lines.first() {
            // Whoever changes the strategy opens every line.
            Some(line) => line.now,
            None => unchanged(base, conn).await?,
        };
        if claiming.seen.astray && !claiming.begun {
            db.return_later(conn, now, longest(claiming.lease())).await?;
        }
        let over = lines.iter_mut().map(|line| (line.shard, line.lapse(claiming.lease())));
        let over = over.flat_map(|(shard, seqs)| seqs.into_iter().map(move |seq| (shard, seq)));
        let over: Vec<(u16, i64)> = over.collect();
        let lapsed: BTreeSet<u16> = over.iter().map(|(shard, _)| *shard).collect();
        lapse(base, conn, over, now).await?;

        let mut stages = claiming.stages(&lines, &lapsed, now);
        let mut pick = claiming.pick(now, &mut stages, &lines);
        match claiming.begun {
            false => pick.take(base, conn, &claiming.seen.glance).await?,
            true => pick.more(base, conn).await?,
        }
        let full = pick.full || pick.wanted() == 0 || pick.room.closed;
        let (cut, until) = (pick.cut, pick.until);
        let (claims, room, rivals) = pick.end();

        let mut opened = Vec::new();
        lines.retain_mut(|line| {
            let here = |at: &Address| at.shelf == Shelf::Hot && at.shard == line.shard;
            let named = claims.iter().flatten().map(|claim| claim.address).filter(here);
            let named: Vec<i64> = named.map(|address| address.number).collect();
            let changed = !named.is_empty() || lapsed.contains(&line.shard);
            line.name(named, until);
            opened.push((line.shard, line.fence));
            changed || base.strategy == Strategy::Preempt
        });
        if !lines.is_empty() {
            db.write_lines(conn, &base.owner, &lines).await?;
        }
        Ok(Step { opened, claims, rivals, room, full, cut })
    }
}
