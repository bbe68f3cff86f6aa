//! Which hot rows have appeared below where a lane has read.

use std::collections::BTreeMap;

use sqlx::MySqlConnection;

use super::template::Value;
use super::{MySql, rows};
use crate::own::Desk;
use crate::server::{Base, Fault};

/// Rows that are in the table, by shard.
pub(super) type There = BTreeMap<u16, Vec<i64>>;

/// Where rows may have appeared: the shard, above which number, and up to which.
pub(super) type Stretches = Vec<(u16, i64, i64)>;

/// Returns where rows may have appeared in some shards.
pub(super) fn stretches(desk: &Desk, shards: &[u16]) -> Stretches {
    let mut all = Vec::new();
    for shard in shards {
        let Some(part) = desk.known(*shard) else { continue };
        let stretches = part.below.stretches(part.hand.cursor()).into_iter();
        all.extend(stretches.map(|(low, high)| (*shard, low, high)));
    }
    all
}

/// Reads which rows are there, as far as they are committed.
pub(super) async fn there(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    stretches: &Stretches,
) -> Result<There, Fault> {
    let mut there = There::new();
    if stretches.is_empty() {
        return Ok(there);
    }
    let row = |(shard, low, high): &(u16, i64, i64)| -> Vec<Value> {
        vec![(*shard).into(), (*low).into(), (*high).into()]
    };
    let ask = base.db.sql.look_hot.ask().each(stretches.iter().map(row).collect());
    for row in ask.all(conn).await? {
        there.entry(rows::shard(&row, 0)?).or_default().push(rows::int(&row, 1)?);
    }
    Ok(there)
}

/// Reads, when it is time for it, which rows are going to be there, and learns it.
pub(super) async fn peek(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    lane: usize,
    shards: &[u16],
) -> Result<(), Fault> {
    let (mut stretches, mut ripe) = (Stretches::new(), BTreeMap::new());
    {
        let mut holding = base.holding();
        let known = shards.iter().filter(|shard| holding.desks[lane].known(**shard).is_some());
        for shard in known.copied().collect::<Vec<u16>>() {
            let part = holding.desks[lane].part(shard);
            let cursor = part.hand.cursor();
            if let Some(to) = part.below.ripe(cursor) {
                let there = part.below.stretches(to).into_iter();
                stretches.extend(there.map(|(low, high)| (shard, low, high)));
                ripe.insert(shard, to);
            }
        }
    }
    if ripe.is_empty() {
        return Ok(());
    }
    // It is for the next transaction only, which is the one statement.
    let dirty = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
    sqlx::raw_sql(dirty).execute(&mut *conn).await?;
    let mut there = there(base, conn, &stretches).await?;
    let mut holding = base.holding();
    for (shard, to) in ripe {
        let part = holding.desks[lane].part(shard);
        let (there, cursor) = (there.remove(&shard).unwrap_or_default(), part.hand.cursor());
        part.below.peeked(to, &there, cursor);
    }
    Ok(())
}
