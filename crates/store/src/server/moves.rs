//! Where settled rows go, by table and outcome.

use event::{Address, Cause, Fence, Millis, Moment, Outcome, Settlement, Shelf};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;

/// A row and what its outcome says of it.
#[derive(Clone, Debug)]
pub(crate) struct End<T> {
    pub(crate) address: Address,
    pub(crate) said: T,
}

/// What the history is told of a published row.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) broker_id: Option<String>,
    /// Whether its identity may not tell when it was created.
    pub(crate) stray: bool,
}

/// When a row is tried again, and what it has behind it then.
#[derive(Clone, Debug)]
pub(crate) struct Again {
    pub(crate) fence: Fence,
    pub(crate) due: Millis,
    pub(crate) attempts: i32,
    pub(crate) trail: Option<String>,
}

/// Where rows go.
pub(super) struct Moving {
    now: Millis,
    /// Whether relays compete: what is put back leaves the line, where others have read beyond it.
    competes: bool,
    hot: Side,
    later: Side,
}

#[derive(Default)]
struct Side {
    done: Vec<End<Option<String>>>,
    retry: Vec<End<Again>>,
    release: Vec<(i64, Millis)>,
    dead: Vec<End<(i32, String)>>,
}

impl Moving {
    pub(super) fn new(now: Millis, competes: bool) -> Moving {
        Moving { now, competes, hot: Side::default(), later: Side::default() }
    }

    /// Adds where an outcome takes a row that had so many attempts and this trail behind it.
    pub(super) fn add(&mut self, end: &Settlement, attempts: u32, trail: &[Moment]) {
        let (now, address) = (self.now, end.address);
        let side = match address.shelf {
            Shelf::Hot => &mut self.hot,
            Shelf::Later => &mut self.later,
        };
        let longer = |cause: &Cause| {
            let mut trail = trail.to_vec();
            trail.push(Moment { at: now, attempt: attempts, cause: cause.clone() });
            Moment::bound(&mut trail);
            serde_json::to_string(&trail).expect("a cause is always JSON")
        };
        match &end.outcome {
            Outcome::Done(receipt) => {
                side.done.push(End { address, said: receipt.broker_id.clone() });
            }
            Outcome::Retry { after, cause } => {
                let (fence, due, trail) = (end.fence, now + *after, Some(longer(cause)));
                side.retry.push(End { address, said: Again { fence, due, attempts: 1, trail } });
            }
            Outcome::Release { after } if self.competes && address.shelf == Shelf::Hot => {
                let (fence, due) = (end.fence, now + *after);
                let said = Again { fence, due, attempts: 0, trail: None };
                side.retry.push(End { address, said });
            }
            Outcome::Release { after } => side.release.push((address.number, now + *after)),
            Outcome::Dead(cause) => {
                let attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
                side.dead.push(End { address, said: (attempts, longer(cause)) });
            }
        }
    }

    /// Moves them. A hot row that its owner releases stays where it is.
    pub(super) async fn write<D: Dialect>(
        self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<(), Fault> {
        let (now, db) = (self.now, &base.db);
        for (shelf, side) in [(Shelf::Hot, &self.hot), (Shelf::Later, &self.later)] {
            if !side.done.is_empty() {
                db.done(conn, shelf, &side.done, base.history, now).await?;
            }
            if !side.retry.is_empty() {
                db.retry(conn, shelf, &side.retry, now).await?;
            }
            if !side.dead.is_empty() {
                db.dead(conn, shelf, &side.dead, now).await?;
            }
        }
        if !self.later.release.is_empty() {
            db.release(conn, &self.later.release).await?;
        }
        Ok(())
    }
}
