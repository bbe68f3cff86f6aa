//! Which hot rows have appeared below where a lane has read. The server draws each number once,
//! whatever the shard, and producers may not choose one: so a row can appear only where a number is
//! missing. Whatever is written by other means is found by the full look.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::statements::Ask;
use super::template::Value;
use super::{MySql, rows};
use crate::own::{Below, Desk, runs};
use crate::server::{Base, Fault};

/// How many stretches missing numbers are looked for in, at the most: with more of them, reading
/// rows again that were looked at costs less.
const GAPS: usize = 4;

/// Rows that are in the table, by shard.
type There = BTreeMap<u16, Vec<i64>>;

/// Where rows may have appeared in some shards: above which numbers, and up to which.
#[derive(Default)]
struct Stretches {
    shards: BTreeSet<u16>,
    window: Option<(i64, i64)>,
    /// Rows that were looked at.
    seen: Vec<i64>,
    pending: BTreeSet<i64>,
}

impl Stretches {
    /// Returns where rows may have appeared below a lane's cursors.
    fn of(desk: &Desk, shards: &[u16]) -> Stretches {
        let mut all = Stretches::default();
        let parts = || shards.iter().filter_map(|shard| Some((*shard, desk.known(*shard)?)));
        for (shard, part) in parts() {
            all.add(shard, &part.below, part.hand.cursor());
        }
        let seen = |window| -> usize { parts().map(|(_, part)| part.below.seen_in(window)).sum() };
        match all.window {
            // No number is missing, however many they are.
            Some((low, high)) if usize::try_from(high - low) == Ok(seen((low, high))) => {
                all.window = None;
            }
            _ => all.seen = parts().flat_map(|(_, part)| part.below.seen()).collect(),
        }
        all
    }

    /// Adds a shard up to a number. Numbers are the whole table's, so one window serves all shards.
    fn add(&mut self, shard: u16, below: &Below, to: i64) {
        let (before, window) = (self.pending.len(), below.window(to));
        self.pending.extend(below.pending());
        if window.is_some() || self.pending.len() > before {
            self.shards.insert(shard);
        }
        self.window = match (self.window, window) {
            (Some((low, high)), Some((from, to))) => Some((low.min(from), high.max(to))),
            (one, other) => one.or(other),
        };
    }

    /// Returns the question which rows are there, unless none can have appeared.
    fn ask(self, base: &Base<MySql>) -> Option<Ask<'_>> {
        let gaps = self.window.map(|window| gaps(window, self.seen)).unwrap_or_default();
        let all = runs(&self.pending).into_iter().chain(gaps);
        let each: Vec<Vec<Value>> = all.map(|(low, high)| vec![low.into(), high.into()]).collect();
        if each.is_empty() {
            return None;
        }
        Some(base.db.sql.look_hot.ask().list(self.shards).each(each))
    }
}

/// Returns where numbers are missing in a window, in so few stretches as are looked at.
fn gaps((low, high): (i64, i64), mut seen: Vec<i64>) -> Vec<(i64, i64)> {
    seen.retain(|seq| (low + 1..=high).contains(seq));
    seen.sort_unstable();
    let (mut gaps, mut at) = (Vec::new(), low);
    for seq in seen.into_iter().chain([high + 1]) {
        if seq > at + 1 {
            gaps.push((at, seq - 1));
        }
        at = seq;
    }
    let mut apart: Vec<i64> = gaps.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
    apart.sort_unstable_by(|one, other| other.cmp(one));
    let near = apart.get(GAPS - 1).copied().unwrap_or(0);
    gaps.dedup_by(|gap, last| {
        let joins = gap.0 - last.1 <= near;
        last.1 = if joins { gap.1 } else { last.1 };
        joins
    });
    gaps
}

/// Reads which rows are there, as far as the connection sees them.
async fn there(conn: &mut MySqlConnection, ask: Option<Ask<'_>>) -> Result<There, Fault> {
    let mut there = There::new();
    let Some(ask) = ask else { return Ok(there) };
    for row in ask.all(conn).await? {
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
    let there = there(conn, stretches.ask(base)).await?;
    let holding = base.holding();
    let appeared = |(shard, there): &(&u16, &Vec<i64>)| {
        let part = holding.desks[lane].known(**shard);
        part.is_some_and(|part| !part.below.unseen(there, part.hand.cursor()).is_empty())
    };
    Ok(there.iter().filter(appeared).map(|(shard, _)| *shard).collect())
}

/// Rows that have appeared below where a lane has read.
pub(super) struct Late {
    pub(super) rows: Vec<(i64, u16, MySqlRow)>,
    /// The last number that was read, if more have appeared.
    pub(super) cut: Option<i64>,
}

/// Reads rows that have appeared below where a lane has read: so many at the most, the oldest
/// first, and in each shard none beyond where a look has ended.
pub(super) async fn late(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    lane: usize,
    shards: &[u16],
    chunk: i64,
    end: impl Fn(u16) -> Option<i64>,
) -> Result<Late, Fault> {
    let stretches = Stretches::of(&base.holding().desks[lane], shards);
    let there = there(conn, stretches.ask(base)).await?;
    let mut late = BTreeSet::new();
    {
        let holding = base.holding();
        for (shard, there) in &there {
            let Some(part) = holding.desks[lane].known(*shard) else { continue };
            let unseen = part.below.unseen(there, part.hand.cursor()).into_iter();
            let unseen = unseen.filter(|seq| end(*shard).is_none_or(|end| *seq <= end));
            late.extend(unseen.map(|seq| (seq, *shard)));
        }
    }
    if late.is_empty() {
        return Ok(Late { rows: Vec::new(), cut: None });
    }
    let most = usize::try_from(chunk).unwrap_or(usize::MAX);
    let more = late.len() > most;
    let oldest: Vec<(i64, u16)> = late.into_iter().take(most).collect();
    let cut = oldest.last().filter(|_| more).map(|(seq, _)| *seq);
    let named = oldest.into_iter().map(|(seq, shard)| vec![seq.into(), shard.into()]);
    let rows = base.db.sql.read_hot.ask().rows(named.collect()).all(conn).await?.into_iter();
    let rows = rows.map(|row| Ok((rows::int(&row, 0)?, rows::shard(&row, 9)?, row)));
    Ok(Late { rows: rows.collect::<Result<_, Fault>>()?, cut })
}

/// Reads which rows are there, committed or not.
async fn dirty(conn: &mut MySqlConnection, ask: Option<Ask<'_>>) -> Result<There, Fault> {
    if ask.is_none() {
        return Ok(There::new());
    }
    // It is for the next transaction only.
    let dirty = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; START TRANSACTION READ ONLY";
    sqlx::raw_sql(dirty).execute(&mut *conn).await?;
    let there = there(conn, ask).await?;
    sqlx::raw_sql("COMMIT").execute(conn).await?;
    Ok(there)
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
                stretches.add(*shard, &part.below, to);
                stretches.seen.extend(part.below.seen());
                ripe.insert(*shard, to);
            }
        }
    }
    if ripe.is_empty() {
        return Ok(());
    }
    let mut there = dirty(conn, stretches.ask(base)).await?;
    let mut holding = base.holding();
    for (shard, to) in ripe {
        let part = holding.desks[lane].part(shard);
        let (there, cursor) = (there.remove(&shard).unwrap_or_default(), part.hand.cursor());
        part.below.peeked(to, &there, cursor);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_looked_for_where_numbers_are_missing_and_nowhere_else() {
        assert_eq!(gaps((10, 15), vec![14, 11, 12, 13, 15]), []);
        assert_eq!(gaps((10, 15), vec![11, 13, 15]), [(11, 12), (13, 14)]);
        assert_eq!(gaps((10, 15), vec![9, 12, 16]), [(10, 11), (12, 15)]);
        assert_eq!(gaps((10, 15), vec![]), [(10, 15)]);
    }

    /// Returns where rows may have appeared, for a lane that has looked at these rows and stands
    /// there.
    fn stretches(passed: &[i64], cursor: i64) -> Vec<(i64, i64)> {
        let mut desk = Desk::new(crate::Lane::default());
        let part = desk.part(0);
        passed.iter().for_each(|seq| part.below.passed(*seq));
        part.hand.skip(cursor);
        let Stretches { window, seen, .. } = Stretches::of(&desk, &[0]);
        window.map(|window| gaps(window, seen)).unwrap_or_default()
    }

    #[test]
    fn where_no_number_is_missing_none_is_looked_for() {
        assert_eq!(stretches(&[1, 2, 3], 3), []);
        assert_eq!(stretches(&[1, 3], 3), [(1, 2)]);
        assert_eq!(stretches(&[1, 2, 3, 4], 2), [], "the cursor went back, and none is missing");
    }

    #[test]
    fn a_row_beyond_a_cursor_that_went_back_does_not_stand_for_one_that_is_missing() {
        assert_eq!(stretches(&[1, 2, 4], 3), [(2, 3)]);
        assert_eq!(stretches(&[1, 4, 5], 3), [(1, 3)]);
    }

    #[test]
    fn many_missing_numbers_are_looked_for_in_few_stretches() {
        let seen = (1..=1_000).filter(|seq| seq % 10 != 0 && !(400..=450).contains(seq));
        let gaps = gaps((0, 1_000), seen.collect());
        assert!(gaps.len() <= GAPS, "{gaps:?}");
        assert_eq!((gaps[0].0, gaps[gaps.len() - 1].1), (9, 1_000));
        let far: Vec<i64> = (1..=100).filter(|seq| ![3, 5, 40, 70, 90].contains(seq)).collect();
        assert_eq!(super::gaps((0, 100), far), [(2, 5), (39, 40), (69, 70), (89, 90)]);
    }
}
