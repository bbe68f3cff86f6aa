//! Where settled rows go: one statement for each table and outcome.

use event::{Address, Cause, Millis, Moment, Outcome, Settlement, Shelf};
use sqlx::PgConnection;

use super::base::Base;
use super::error::Fault;
use super::glance::number;

/// Where rows go, by table and outcome.
pub(super) struct Moves {
    now: Millis,
    hot: Side,
    later: Side,
}

#[derive(Default)]
struct Side {
    done: Ends<Option<String>>,
    retry: Ends<(i64, i64, String)>,
    release: Ends<i64>,
    dead: Ends<(i32, String)>,
}

/// Rows of one table with one outcome, and what that outcome says of each.
struct Ends<T> {
    shards: Vec<i16>,
    numbers: Vec<i64>,
    said: Vec<T>,
}

impl<T> Default for Ends<T> {
    fn default() -> Ends<T> {
        Ends { shards: Vec::new(), numbers: Vec::new(), said: Vec::new() }
    }
}

impl<T> Ends<T> {
    fn push(&mut self, address: Address, said: T) {
        self.shards.push(number(address.shard));
        self.numbers.push(address.number);
        self.said.push(said);
    }

    fn each<U>(&self, of: impl Fn(&T) -> U) -> Vec<U> {
        self.said.iter().map(of).collect()
    }

    fn is_empty(&self) -> bool {
        self.said.is_empty()
    }
}

impl Moves {
    pub(super) fn new(now: Millis) -> Moves {
        Moves { now, hot: Side::default(), later: Side::default() }
    }

    /// Adds where an outcome takes a row that had so many attempts and this trail behind it.
    pub(super) fn add(&mut self, end: &Settlement, attempts: u32, trail: &[Moment]) {
        let side = match end.address.shelf {
            Shelf::Hot => &mut self.hot,
            Shelf::Later => &mut self.later,
        };
        let longer = |cause: &Cause| {
            let mut trail = trail.to_vec();
            trail.push(Moment { at: self.now, attempt: attempts, cause: cause.clone() });
            Moment::bound(&mut trail);
            serde_json::to_string(&trail).expect("a cause is always JSON")
        };
        match &end.outcome {
            Outcome::Done(receipt) => side.done.push(end.address, receipt.broker_id.clone()),
            Outcome::Retry { after, cause } => {
                let due = (self.now + *after).0;
                side.retry.push(end.address, (end.fence.0, due, longer(cause)));
            }
            Outcome::Release { after } => side.release.push(end.address, (self.now + *after).0),
            Outcome::Dead(cause) => {
                let attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
                side.dead.push(end.address, (attempts, longer(cause)));
            }
        }
    }

    /// Moves them.
    pub(super) async fn write(self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let now = self.now.0;
        self.hot.write_hot(base, conn, now).await?;
        self.later.write_later(base, conn, now).await
    }
}

impl Side {
    async fn write_hot(self, base: &Base, conn: &mut PgConnection, now: i64) -> Result<(), Fault> {
        let Side { done, retry, dead, .. } = self;
        if !done.is_empty() {
            let sql = if base.history { &base.sql.done_hot } else { &base.sql.drop_hot };
            let query = sql.query().bind(done.shards).bind(done.numbers);
            let query = if base.history { query.bind(done.said).bind(now) } else { query };
            query.execute(&mut *conn).await?;
        }
        if !retry.is_empty() {
            let fences = retry.each(|(fence, ..)| *fence);
            let dues = retry.each(|(_, due, _)| *due);
            let trails = retry.each(|(.., trail)| trail.clone());
            let query = base.sql.retry_hot.query().bind(retry.shards).bind(retry.numbers);
            let query = query.bind(fences).bind(dues).bind(trails).bind(now);
            query.execute(&mut *conn).await?;
        }
        if !dead.is_empty() {
            let attempts = dead.each(|(attempts, _)| *attempts);
            let trails = dead.each(|(_, trail)| trail.clone());
            let query = base.sql.dead_hot.query().bind(dead.shards).bind(dead.numbers);
            query.bind(attempts).bind(trails).bind(now).execute(conn).await?;
        }
        Ok(())
    }

    async fn write_later(
        self,
        base: &Base,
        conn: &mut PgConnection,
        now: i64,
    ) -> Result<(), Fault> {
        let Side { done, retry, release, dead } = self;
        if !done.is_empty() {
            let sql = if base.history { &base.sql.done_later } else { &base.sql.drop_later };
            let query = sql.query().bind(done.numbers);
            let query = if base.history { query.bind(done.said).bind(now) } else { query };
            query.execute(&mut *conn).await?;
        }
        if !retry.is_empty() {
            let dues = retry.each(|(_, due, _)| *due);
            let trails = retry.each(|(.., trail)| trail.clone());
            let query = base.sql.retry_later.query().bind(retry.numbers);
            query.bind(dues).bind(trails).bind(now).execute(&mut *conn).await?;
        }
        if !release.is_empty() {
            let query = base.sql.release_later.query().bind(release.numbers).bind(release.said);
            query.execute(&mut *conn).await?;
        }
        if !dead.is_empty() {
            let attempts = dead.each(|(attempts, _)| *attempts);
            let trails = dead.each(|(_, trail)| trail.clone());
            let query = base.sql.dead_later.query().bind(dead.numbers);
            query.bind(attempts).bind(trails).bind(now).execute(conn).await?;
        }
        Ok(())
    }
}
