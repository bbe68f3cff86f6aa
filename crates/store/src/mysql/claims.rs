//! What waits. Rows of transactions that were open at a look are found by reading what is there
//! and not committed: these servers tell no snapshot, and who is open only to the privileged.

use std::collections::BTreeMap;

use async_trait::async_trait;
use event::{Cause, Event, Fence, Millis};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::looks::{peek, stretches, there};
use super::template::Value;
use super::{MySql, rows};
use crate::own::{Desk, Look, Part, Passed};
use crate::server::{Base, Claimed, Claims, DueRow, Fault, Glance, Holder, Shown, Sighted};

/// How many shards one statement looks at.
const AT_ONCE: usize = 64;

/// Returns where a lane's look at the hot rows of a shard begins.
fn begin(desk: &Desk, shard: u16) -> i64 {
    let cursor = desk.cursor(shard);
    desk.known(shard).map_or(cursor, |part| part.sight.from(cursor))
}

fn look(row: &MySqlRow) -> Result<Look, Fault> {
    use crate::server::rows::Cells;
    Ok(Look {
        shard: rows::shard(row, 1)?,
        now: Millis(rows::int(row, 0)?),
        owner: rows::text(row, 2)?.to_owned(),
        mark: Fence(rows::int(row, 3)?),
        until: Millis(rows::int(row, 4)?),
        hot: rows::int(row, 5)? != 0,
        ahead: rows::int(row, 6)? != 0,
        due: row.cell_int(7)?.map(Millis),
        newest: rows::int(row, 8)?,
    })
}

#[async_trait]
impl Claims for MySql {
    type Row = MySqlRow;
    type Seen = ();

    async fn glance(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        lane: usize,
        seen: Millis,
    ) -> Result<Glance<MySql>, Fault> {
        let shards: Vec<u16> = (0..base.shards(conn).await?).collect();
        peek(base, conn, lane, &shards).await?;
        let mut looks = Vec::with_capacity(shards.len());
        for some in shards.chunks(AT_ONCE) {
            let each: Vec<Vec<Value>> = {
                let holding = base.holding();
                let desk = &holding.desks[lane];
                some.iter().map(|shard| vec![(*shard).into(), begin(desk, *shard).into()]).collect()
            };
            let ask = base.db.sql.glance.ask().give(base.now()).give(&*base.owner).give(seen.0);
            for row in ask.each(each).all(&mut *conn).await? {
                looks.push(look(&row)?);
            }
        }
        looks.sort_by_key(|look| look.shard);
        let stretches = stretches(&base.holding().desks[lane], &shards);
        let there = there(base, conn, &stretches).await?;
        let holding = base.holding();
        for look in &mut looks {
            let (part, there) = (holding.desks[lane].known(look.shard), there.get(&look.shard));
            let late =
                part.zip(there).is_some_and(|(part, there)| !part.below.unseen(there).is_empty());
            look.ahead |= late;
        }
        let (now, newest) = looks.last().map_or((Millis(0), 0), |look| (look.now, look.newest));
        Ok(Glance { looks, now, newest, seen: () })
    }

    /// What is above comes first: whoever comes before it in a transaction's order is then among
    /// what is read below.
    async fn look(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        lane: usize,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown<MySql>, Fault> {
        let from: BTreeMap<u16, i64> = {
            let holding = base.holding();
            let desk = &holding.desks[lane];
            shards.iter().map(|shard| (*shard, begin(desk, *shard))).collect()
        };
        let lowest = from.values().min().copied().unwrap_or(0);
        let ask = base.db.sql.claim_hot.ask().list(from.keys().copied()).give(lowest);
        let above = ask.list(from.values().copied()).give(chunk).all(&mut *conn).await?;
        let cut = above.len() as i64 == chunk;
        let mut line = BTreeMap::new();
        for row in above {
            line.insert((rows::int(&row, 0)?, rows::shard(&row, 9)?), row);
        }
        let last = line.last_key_value().map(|((seq, _), _)| *seq).filter(|_| cut);
        let stretches = stretches(&base.holding().desks[lane], shards);
        let there = there(base, conn, &stretches).await?;
        let mut late: Vec<Vec<Value>> = Vec::new();
        {
            let holding = base.holding();
            for (shard, there) in &there {
                let Some(part) = holding.desks[lane].known(*shard) else { continue };
                let unseen = part.below.unseen(there).into_iter();
                let unseen = unseen.filter(|seq| last.is_none_or(|last| *seq <= last));
                late.extend(unseen.map(|seq| vec![seq.into(), (*shard).into()]));
            }
        }
        late.truncate(usize::try_from(chunk).unwrap_or(usize::MAX));
        if !late.is_empty() {
            for row in base.db.sql.read_hot.ask().rows(late).all(conn).await? {
                line.insert((rows::int(&row, 0)?, rows::shard(&row, 9)?), row);
            }
        }
        let line = line.into_iter().map(|((seq, shard), row)| (seq, shard, row)).collect();
        Ok(Shown { line, seen: (), from, cut })
    }

    fn topic(row: &MySqlRow) -> Result<&str, Fault> {
        rows::text(row, 2)
    }

    fn event(row: &MySqlRow) -> Result<Result<Event, Cause>, Fault> {
        rows::event(row, 1)
    }

    fn passed(part: &mut Part, seq: i64) {
        part.below.passed(seq);
    }

    fn saw(part: &mut Part, (): &(), sighted: &Sighted) {
        let &Sighted { from, before, reached, open, .. } = sighted;
        // One look reads all shards in one order, so each of them has come as far as the last row.
        let reached = reached.unwrap_or(from).max(from);
        part.sight.looked(from, before, open.then_some(reached));
        if open {
            part.hand.skip(reached);
        }
    }

    fn saw_later(part: &mut Part, (): &(), newest: i64, passed: Passed) {
        part.passed = part.lag.follow(newest, passed);
    }

    async fn holders(
        &self,
        conn: &mut MySqlConnection,
        shards: &[u16],
    ) -> Result<Vec<Holder>, Fault> {
        let mut holders = Vec::new();
        for some in shards.chunks(AT_ONCE) {
            let each = some.iter().map(|shard| vec![(*shard).into()]).collect();
            for row in self.sql.holders.ask().each(each).all(&mut *conn).await? {
                holders.push(Holder {
                    shard: rows::shard(&row, 4)?,
                    number: rows::int(&row, 0)?,
                    birth: rows::int(&row, 1)?,
                    key: rows::text(&row, 2)?.to_owned(),
                    topic: rows::text(&row, 3)?.to_owned(),
                });
            }
        }
        Ok(holders)
    }

    async fn due_later(
        &self,
        conn: &mut MySqlConnection,
        now: Millis,
        places: &[(u16, Millis, i64)],
        chunk: i64,
    ) -> Result<Vec<DueRow>, Fault> {
        let mut due = Vec::new();
        for some in places.chunks(AT_ONCE) {
            let place = |(shard, due, number): &(u16, Millis, i64)| -> Vec<Value> {
                vec![(*shard).into(), due.0.into(), (*number).into()]
            };
            let ask = self.sql.due_later.ask().give(now.0).give(chunk);
            for row in ask.each(some.iter().map(place).collect()).all(&mut *conn).await? {
                due.push(rows::due(&row, false)?);
            }
        }
        due.sort_by_key(|row| (row.shard, row.due, row.number));
        Ok(due)
    }

    async fn new_later(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        _: usize,
        passed: &BTreeMap<u16, Passed>,
    ) -> Result<Vec<DueRow>, Fault> {
        let some: BTreeMap<u16, Passed> =
            passed.iter().filter(|(_, it)| !it.is_nothing()).map(|(at, it)| (*at, *it)).collect();
        let newest = some.values().map(|passed| passed.newest).min().unwrap_or(0);
        let due = some.values().map(|passed| passed.due.0).max().unwrap_or(0);
        let ask = base.db.sql.new_later.ask().give(newest);
        let rows = ask.list(some.keys().copied()).give(due).all(conn).await?;
        let rows = rows.iter().map(|row| rows::due(row, true));
        let mut rows = rows.collect::<Result<Vec<DueRow>, Fault>>()?;
        rows.retain(|row| {
            let Passed { due, number, newest } = some[&row.shard];
            row.number > newest && (row.due, row.number) <= (due, number)
        });
        rows.sort_by_key(|row| (row.due, row.number));
        Ok(rows)
    }

    async fn claim_later(
        &self,
        conn: &mut MySqlConnection,
        rows: &[(i64, Fence)],
        until: Millis,
    ) -> Result<Vec<Claimed>, Fault> {
        let mut ordered = rows.to_vec();
        ordered.sort_unstable();
        let named = ordered.iter().map(|(number, fence)| vec![(*number).into(), fence.0.into()]);
        let ask = self.sql.claim_later.ask().give(until.0).rows(named.collect());
        ask.run(&mut *conn).await?;
        let named = ordered.iter().map(|(number, _)| vec![(*number).into()]).collect();
        let read = |row: &MySqlRow| {
            Ok(Claimed {
                number: self::rows::int(row, 0)?,
                event: self::rows::event(row, 1)?,
                attempt: self::rows::small(row, 9)?,
                trail: self::rows::trail(row, 10)?,
                unexplained: self::rows::small(row, 11)?,
            })
        };
        self.sql.read_later.ask().rows(named).all(conn).await?.iter().map(read).collect()
    }
}
