//! Upkeep in small steps, by one holder at a time. Dead rows are never touched.
//!
//! Where history goes by the day, a step drops a day at once. Whoever reads it meanwhile is not
//! waited for: the day goes at another step.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use event::{Chores, Keep, Millis, StoreError, Swept};

use super::base::Base;
use super::dialect::{Dialect, Keeps};
use super::fault::Fault;
use super::history::{Plan, Ring};
use super::work::{Commit, Scope, Terms, Work};

/// How many rows of a day are looked at in every step, and before it is dropped.
const GLANCE: i64 = 100;
const CLOSELY: i64 = 10_000;

/// The longest that nobody tries again to drop a day that somebody reads.
const REST: Duration = Duration::from_secs(3_600);

/// The upkeep of one handle.
pub(super) struct ServerChores<D: Dialect> {
    base: Arc<Base<D>>,
    rest: Mutex<Rest>,
}

/// Until when no day is dropped, and how long that was.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    until: Millis,
    pause: Duration,
}

impl Rest {
    /// Tells whether a day may be dropped. One that begins after a clock was set back does not
    /// wait for longer than any does.
    fn over(self, now: Millis) -> bool {
        self.until <= now || self.until > now + REST
    }

    fn again(self, now: Millis, first: Duration) -> Rest {
        let pause = (2 * self.pause).max(first).min(REST);
        Rest { until: now + pause, pause }
    }
}

impl<D: Dialect> ServerChores<D> {
    pub(super) fn new(base: Arc<Base<D>>) -> ServerChores<D> {
        ServerChores { base, rest: Mutex::default() }
    }

    /// Drops no day for a while: at first for so long, then for longer each time.
    fn rest_again(&self, now: Millis, first: Duration) {
        let mut rest = self.rest();
        *rest = rest.again(now, first);
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, Rest> {
        self.rest.lock().expect("nothing panics while the rest is open")
    }
}

#[async_trait]
impl<D: Dialect> Chores for ServerChores<D> {
    async fn sweep(&self, keep: &Keep) -> Result<Swept, StoreError> {
        let Some((now, mut swept, plan)) = self.base.carry(Sweeping(*keep)).await? else {
            return Ok(Swept { elsewhere: true, ..Swept::default() });
        };
        if !self.rest().over(now) {
            return Ok(swept);
        }
        for slot in plan.drop {
            let dropped = self.base.carry(Dropping { keep: *keep, slot }).await;
            let dropped = dropped.inspect_err(|_| self.rest_again(now, REST / 60));
            match dropped? {
                Dropped::Day(rows) => {
                    swept.sent += rows;
                    *self.rest() = Rest::default();
                    break;
                }
                Dropped::Busy if <D as Keeps>::BACK_OFF.is_zero() => {}
                Dropped::Busy => {
                    self.rest_again(now, <D as Keeps>::BACK_OFF);
                    break;
                }
                Dropped::Not => {}
            }
        }
        Ok(swept)
    }
}

struct Sweeping(Keep);

#[async_trait]
impl<D: Dialect> Work<D> for Sweeping {
    type Out = Option<(Millis, Swept, Plan)>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, Scope::Transaction)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        base.shards(conn).await?;
        let keep = self.0;
        let Some(now) = base.db.take_chores(conn, base.now(), &base.owner, lease(&keep)).await?
        else {
            return Ok(None);
        };
        let plan = match Ring::new(now, keep.sent) {
            Some(ring) => ring.plan(&base.db.days(conn, &ring.slots(), GLANCE).await?, GLANCE),
            None => Plan { drop: Vec::new(), ahead: true },
        };
        let sent = match plan.ahead {
            true => base.db.trim_sent(conn, &keep, now).await?,
            false => 0,
        };
        let inbox = base.db.trim(conn, &keep, now).await?;
        Ok(Some((now, Swept { sent, inbox, elsewhere: false }, plan)))
    }
}

/// What became of a day that was to go.
enum Dropped {
    /// It went, with so many rows as were looked at.
    Day(u64),
    /// Somebody reads it.
    Busy,
    /// It is not to go, or another holds the chores.
    Not,
}

struct Dropping {
    keep: Keep,
    slot: i64,
}

#[async_trait]
impl<D: Dialect> Work<D> for Dropping {
    type Out = Dropped;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Quick, <D as Keeps>::DROPS)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Dropped, Fault> {
        let Dropping { keep, slot } = *self;
        let taken = base.db.take_chores(conn, base.now(), &base.owner, lease(&keep)).await?;
        let Some(ring) = taken.and_then(|now| Ring::new(now, keep.sent)) else {
            return Ok(Dropped::Not);
        };
        if !base.db.hold_day(conn, slot).await? {
            return Ok(Dropped::Busy);
        }
        let seen = base.db.days(conn, &[slot], CLOSELY).await?.get(&slot).copied();
        let Some(seen) = seen.filter(|seen| ring.goes(slot, *seen, CLOSELY)) else {
            return Ok(Dropped::Not);
        };
        match base.db.drop_day(conn, slot).await? {
            true => Ok(Dropped::Day(u64::try_from(seen.rows).unwrap_or(0))),
            false => Ok(Dropped::Busy),
        }
    }
}

fn lease(keep: &Keep) -> i64 {
    i64::try_from(keep.lease.as_millis()).unwrap_or(i64::MAX)
}
