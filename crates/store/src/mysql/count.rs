//! Counting rows by status: a few statements in one transaction, all at one moment.

use std::collections::{BTreeSet, HashMap};

use event::{Counts, Millis};
use sqlx::{MySqlConnection, Row};

use super::statements::Statements;
use super::template::Value;
use super::{flight, rows};
use crate::listing::{RECENT, counts};
use crate::server::Fault;
use crate::server::rows::Cells;

/// How many rows or shards one statement names.
const AT_ONCE: usize = 64;

/// A hot row that a lease row names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) shard: u16,
    pub(super) seq: i64,
    pub(super) until: Millis,
    /// Whether its lease runs, or its claim where relays compete.
    pub(super) live: bool,
}

/// What the lease rows say.
pub(super) struct Leases {
    pub(super) now: Millis,
    pub(super) named: Vec<Named>,
    shards: BTreeSet<u16>,
    sent: i64,
}

/// Reads what the lease rows say.
pub(super) async fn leases(
    sql: &Statements,
    conn: &mut MySqlConnection,
    now: Option<i64>,
) -> Result<Leases, Fault> {
    let (now_, sent) = (Millis(0), 0);
    let mut leases = Leases { now: now_, named: Vec::new(), shards: BTreeSet::new(), sent };
    for row in sql.leases.ask().give(now).all(conn).await? {
        leases.now = Millis(rows::int(&row, 0)?);
        leases.sent += rows::int(&row, 4)?;
        let Ok(shard) = u16::try_from(rows::int(&row, 1)?) else { continue };
        leases.shards.insert(shard);
        let (now, lease) = (leases.now, row.cell_int(2)?.map(Millis));
        let out = flight::read(rows::text(&row, 3)?).into_iter();
        leases.named.extend(out.map(|(seq, until)| {
            let live = lease.unwrap_or(until) > now;
            Named { shard, seq, until, live }
        }));
    }
    Ok(leases)
}

/// Counts.
pub(super) async fn count(
    sql: &Statements,
    conn: &mut MySqlConnection,
    now: Option<i64>,
    many: i64,
) -> Result<Counts, Fault> {
    let leases = leases(sql, conn, now).await?;
    let mut counted: HashMap<&str, Option<i64>> = HashMap::new();
    counted.insert("now", Some(leases.now.0));
    counted.insert("sent", Some(leases.sent));
    flights(sql, conn, &leases, &mut counted).await?;
    edges(sql, conn, &leases, &mut counted).await?;
    let ask = sql.count.ask().give(leases.now.0).give(many.saturating_add(1)).give(RECENT);
    let row = ask.one(conn).await?;
    counts(many, |name| match counted.get(name) {
        Some(value) => Ok(*value),
        None => Ok::<_, Fault>(row.try_get(name)?),
    })
}

/// Counts the rows in flight that are there.
async fn flights(
    sql: &Statements,
    conn: &mut MySqlConnection,
    leases: &Leases,
    counted: &mut HashMap<&str, Option<i64>>,
) -> Result<(), Fault> {
    let mut there = BTreeSet::new();
    for some in leases.named.chunks(AT_ONCE) {
        let key = |one: &Named| -> Vec<Value> { vec![one.seq.into(), one.shard.into()] };
        let ask = sql.there.ask().rows(some.iter().map(key).collect());
        for row in ask.all(&mut *conn).await? {
            there.insert((rows::int(&row, 0)?, rows::shard(&row, 1)?));
        }
    }
    let named = || leases.named.iter().filter(|one| there.contains(&(one.seq, one.shard)));
    let live = named().filter(|one| one.live).count();
    counted.insert("hot_out", i64::try_from(live).ok());
    let lapsed = named().filter(|one| !one.live && one.until <= leases.now);
    counted.insert("lapsed_due", lapsed.map(|one| one.until.0).min());
    Ok(())
}

/// Reads where each shard begins and ends.
async fn edges(
    sql: &Statements,
    conn: &mut MySqlConnection,
    leases: &Leases,
    counted: &mut HashMap<&str, Option<i64>>,
) -> Result<(), Fault> {
    let (mut first, mut last, mut hot, mut later) = (None, None, None, None);
    let least = |one: Option<i64>, other: Option<i64>| one.into_iter().chain(other).min();
    let shards: Vec<u16> = leases.shards.iter().copied().collect();
    for some in shards.chunks(AT_ONCE) {
        // No row has the number 0: a list must not be empty.
        let out = std::iter::once(0).chain(leases.named.iter().map(|one| one.seq));
        let ask = sql.edges.ask().give(leases.now.0).list(out);
        let each = some.iter().map(|shard| vec![(*shard).into()]).collect();
        for row in ask.each(each).all(&mut *conn).await? {
            first = least(first, row.cell_int(0)?);
            last = last.max(row.cell_int(1)?);
            hot = least(hot, row.cell_int(2)?);
            later = least(later, row.cell_int(3)?);
        }
    }
    counted.insert("hot_span", last.zip(first).map(|(last, first)| last - first + 1));
    counted.insert("hot_due", hot);
    counted.insert("later_due", later);
    Ok(())
}
