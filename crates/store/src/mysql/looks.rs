//! Which hot rows have appeared below where a lane has read.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::template::Value;
use super::{MySql, rows};
use crate::own::{Desk, runs};
use crate::server::{Base, Fault};

/// Rows that are in the table, by shard.
type There = BTreeMap<u16, Vec<i64>>;

/// Where rows may have appeared in some shards: above which numbers, and up to which.
#[derive(Default)]
struct Stretches {
    shards: BTreeSet<u16>,
    window: Option<(i64, i64)>,
    pending: BTreeSet<i64>,
}

impl Stretches {
    /// Returns where rows may have appeared below a lane's cursors.
    fn of(desk: &Desk, shards: &[u16]) -> Stretches {
        let mut all = Stretches::default();
        for shard in shards {
            if let Some(part) = desk.known(*shard) {
                let window = part.below.window(part.hand.cursor());
                all.add(*shard, window, part.below.pending());
            }
        }
        all
    }

    /// Adds a shard. Numbers are the whole table's, so one window serves all shards.
    fn add(&mut self, shard: u16, window: Option<(i64, i64)>, pending: impl Iterator<Item = i64>) {
        let before = self.pending.len();
        self.pending.extend(pending);
        if window.is_some() || self.pending.len() > before {
            self.shards.insert(shard);
        }
        self.window = match (self.window, window) {
            (Some((low, high)), Some((from, to))) => Some((low.min(from), high.max(to))),
            (one, other) => one.or(other),
        };
    }

    fn each(&self) -> Vec<Vec<Value>> {
        let all = runs(&self.pending).into_iter().chain(self.window);
        all.map(|(low, high)| vec![low.into(), high.into()]).collect()
    }
}

/// Reads which rows are there, as far as the connection sees them.
async fn there(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    stretches: &Stretches,
) -> Result<There, Fault> {
    let mut there = There::new();
    let each = stretches.each();
    if each.is_empty() {
        return Ok(there);
    }
    let ask = base.db.sql.look_hot.ask().list(stretches.shards.iter().copied());
    for row in ask.each(each).all(conn).await? {
        there.entry(rows::shard(&row, 0)?).or_default().push(rows::int(&row, 1)?);
    }
    Ok(there)
}

/// Returns in which of a lane's shards rows have appeared below where it has read.
pub(super) async fn appeared(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    lane: usize,
    shards: &[u16],
) -> Result<BTreeSet<u16>, Fault> {
    let stretches = Stretches::of(&base.holding().desks[lane], shards);
    let there = there(base, conn, &stretches).await?;
    let holding = base.holding();
    let appeared = |(shard, there): &(&u16, &Vec<i64>)| {
        let part = holding.desks[lane].known(**shard);
        part.is_some_and(|part| !part.below.unseen(there, part.hand.cursor()).is_empty())
    };
    Ok(there.iter().filter(appeared).map(|(shard, _)| *shard).collect())
}

/// Reads rows that have appeared below where a lane has read: so many at the most, and in each
/// shard none beyond where a look has ended.
pub(super) async fn late(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    lane: usize,
    shards: &[u16],
    chunk: i64,
    end: impl Fn(u16) -> Option<i64>,
) -> Result<Vec<(i64, u16, MySqlRow)>, Fault> {
    let stretches = Stretches::of(&base.holding().desks[lane], shards);
    let there = there(base, conn, &stretches).await?;
    let mut late: Vec<Vec<Value>> = Vec::new();
    {
        let holding = base.holding();
        for (shard, there) in &there {
            let Some(part) = holding.desks[lane].known(*shard) else { continue };
            let unseen = part.below.unseen(there, part.hand.cursor()).into_iter();
            let unseen = unseen.filter(|seq| end(*shard).is_none_or(|end| *seq <= end));
            late.extend(unseen.map(|seq| vec![seq.into(), (*shard).into()]));
        }
    }
    late.truncate(usize::try_from(chunk).unwrap_or(usize::MAX));
    if late.is_empty() {
        return Ok(Vec::new());
    }
    let rows = base.db.sql.read_hot.ask().rows(late).all(conn).await?.into_iter();
    rows.map(|row| Ok((rows::int(&row, 0)?, rows::shard(&row, 9)?, row))).collect()
}

/// Reads, when it is time for it, which rows are going to be there, and learns it.
pub(super) async fn peek(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    lane: usize,
    shards: &[u16],
) -> Result<(), Fault> {
    let (mut stretches, mut ripe) = (Stretches::default(), BTreeMap::new());
    {
        let mut holding = base.holding();
        let desk = &mut holding.desks[lane];
        for shard in shards {
            if desk.known(*shard).is_none() {
                continue;
            }
            let part = desk.part(*shard);
            if let Some(to) = part.below.ripe(part.hand.cursor()) {
                stretches.add(*shard, part.below.window(to), part.below.pending());
                ripe.insert(*shard, to);
            }
        }
    }
    if ripe.is_empty() {
        return Ok(());
    }
    // It is for the next transaction only.
    let dirty = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; START TRANSACTION READ ONLY";
    sqlx::raw_sql(dirty).execute(&mut *conn).await?;
    let mut there = there(base, conn, &stretches).await?;
    sqlx::raw_sql("COMMIT").execute(conn).await?;
    let mut holding = base.holding();
    for (shard, to) in ripe {
        let part = holding.desks[lane].part(shard);
        let (there, cursor) = (there.remove(&shard).unwrap_or_default(), part.hand.cursor());
        part.below.peeked(to, &there, cursor);
    }
    Ok(())
}
