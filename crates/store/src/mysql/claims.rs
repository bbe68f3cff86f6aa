//! What waits. Rows of transactions that were open at a look are found by reading what is there
//! and not committed: these servers tell no snapshot, and who is open only to the privileged.

use std::collections::BTreeMap;

use async_trait::async_trait;
use event::{Cause, Event, Fence, Leased, Millis};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::looks::{appeared, late, peek};
use super::statements::Ask;
use super::template::Value;
use super::{MySql, rows};
use crate::own::{Desk, Look, Part, Passed};
use crate::server::rows::Cells;
use crate::server::{Base, Claimed, Claims, DueRow, Fault, Glance, Holder, Shown, Sighted};

/// How many shards one statement looks at.
pub(super) const AT_ONCE: usize = 64;

/// How a look has read hot rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All shards as one line, the oldest row first.
    Together,
    /// One shard after the other.
    Apart,
}

/// Returns where a lane's look at the hot rows of a shard begins.
pub(super) fn begin(desk: &Desk, shard: u16) -> i64 {
    let cursor = desk.cursor(shard);
    desk.known(shard).map_or(cursor, |part| part.sight.from(cursor))
}

/// Where a lane's looks at the hot rows of some shards begin.
struct Begins(BTreeMap<u16, i64>);

impl Begins {
    fn of(desk: &Desk, shards: &[u16]) -> Begins {
        Begins(shards.iter().map(|shard| (*shard, begin(desk, *shard))).collect())
    }

    /// Gives a statement the shards, the lowest place, and every place.
    fn give<'s>(&self, ask: Ask<'s>) -> Ask<'s> {
        let lowest = self.0.values().min().copied().unwrap_or(0);
        ask.list(self.0.keys().copied()).give(lowest).list(self.0.values().copied())
    }
}

/// Reads a look. What was found in the shards held counts for each of them.
fn look(row: &MySqlRow, held: &[u16]) -> Result<Look, Fault> {
    let shard = rows::shard(row, 1)?;
    let mine = held.contains(&shard);
    Ok(Look {
        shard,
        now: Millis(rows::int(row, 0)?),
        owner: rows::text(row, 2)?.to_owned(),
        mark: Fence(rows::int(row, 3)?),
        until: Millis(rows::int(row, 4)?),
        hot: mine,
        ahead: mine && rows::int(row, 5)? != 0,
        front: 0,
        due: row.cell_int(6)?.filter(|_| mine).map(Millis),
        newest: rows::int(row, 7)?,
    })
}

/// Reads a later row that was claimed.
pub(super) fn claimed(row: &MySqlRow) -> Result<Claimed, Fault> {
    Ok(Claimed {
        number: rows::int(row, 0)?,
        event: rows::event(row, 1)?,
        attempt: rows::small(row, 9)?,
        trail: rows::trail(row, 10)?,
        unexplained: rows::small(row, 11)?,
    })
}

/// Looks at what waits in shards whose leases do not run.
async fn waits(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    looks: &mut [Look],
    seen: Millis,
) -> Result<(), Fault> {
    let lease = base.holding().lease;
    let mine = |look: &Look| look.owner == base.owner && look.until > look.now && look.hot;
    let free = |look: &&mut Look| {
        !mine(look)
            && (look.owner == base.owner || !Leased::Shard.runs(look.until, look.now, lease))
    };
    let mut free: BTreeMap<u16, &mut Look> =
        looks.iter_mut().filter(free).map(|look| (look.shard, look)).collect();
    let shards: Vec<u16> = free.keys().copied().collect();
    for some in shards.chunks(AT_ONCE) {
        let each = some.iter().map(|shard| vec![(*shard).into()]).collect();
        for row in base.db.sql.waits.ask().give(seen.0).each(each).all(&mut *conn).await? {
            let look = free.get_mut(&rows::shard(&row, 0)?).expect("only free shards are asked");
            // What was let go under a lease that runs on may be in flight only by the table.
            let ours = look.owner == base.owner && look.until > look.now;
            look.hot = ours || rows::int(&row, 1)? != 0;
            look.due = row.cell_int(2)?.map(Millis);
        }
    }
    Ok(())
}

#[async_trait]
impl Claims for MySql {
    type Row = MySqlRow;
    type Seen = Read;

    async fn glance(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        lane: usize,
        seen: Millis,
    ) -> Result<Glance<MySql>, Fault> {
        base.shards(conn).await?;
        let held = base.holding().shards();
        peek(base, conn, lane, &held).await?;
        let begins = Begins::of(&base.holding().desks[lane], &held);
        let ask = begins.give(base.db.sql.glance.ask().give(base.now())).give(seen.0);
        let looks = ask.all(&mut *conn).await?;
        let looks = looks.iter().map(|row| look(row, &held)).collect::<Result<Vec<Look>, _>>();
        let mut looks = looks?;
        looks.sort_by_key(|look| look.shard);
        waits(base, conn, &mut looks, seen).await?;
        let quiet = looks.iter().filter(|look| held.contains(&look.shard) && !look.ahead);
        let quiet: Vec<u16> = quiet.map(|look| look.shard).collect();
        let appeared = appeared(base, conn, lane, &quiet).await?;
        looks.iter_mut().for_each(|look| look.ahead |= appeared.contains(&look.shard));
        let (now, newest) = looks.last().map_or((Millis(0), 0), |look| (look.now, look.newest));
        Ok(Glance { looks, now, newest, seen: Read::Together })
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
        let begins = Begins::of(&base.holding().desks[lane], shards);
        let ask = begins.give(base.db.sql.claim_hot.ask()).give(chunk);
        let above = ask.all(&mut *conn).await?;
        let mut cut = above.len() as i64 == chunk;
        let mut line = BTreeMap::new();
        for row in above {
            line.insert((rows::int(&row, 0)?, rows::shard(&row, 9)?), row);
        }
        let last = line.last_key_value().map(|((seq, _), _)| *seq).filter(|_| cut);
        let late = late(base, conn, lane, shards, chunk, |_| last).await?;
        if let Some(last) = late.cut {
            // What is above those that are left may have to come after them.
            line.retain(|(seq, _), _| *seq <= last);
            cut = true;
        }
        line.extend(late.rows.into_iter().map(|(seq, shard, row)| ((seq, shard), row)));
        let line = line.into_iter().map(|((seq, shard), row)| (seq, shard, row)).collect();
        Ok(Shown { line, seen: Read::Together, from: begins.0, cut })
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

    fn saw(part: &mut Part, read: &Read, sighted: &Sighted) {
        let &Sighted { from, before, shown, reached, open } = sighted;
        match read {
            // Each of the shards has come as far as the last row of all.
            Read::Together => {
                let reached = reached.unwrap_or(from).max(from);
                part.sight.looked(from, before, open.then_some(reached));
                if open {
                    part.hand.skip(reached);
                }
            }
            // A shard that showed nothing was not reached, if there may have been more.
            Read::Apart if shown.is_none() && open => {}
            Read::Apart => {
                let ended = open.then(|| shown.flatten().unwrap_or(from));
                part.sight.looked(from, before, ended);
            }
        }
    }

    fn saw_later(part: &mut Part, _: &Read, newest: i64, passed: Passed) {
        part.passed = part.lag.follow(newest, passed);
    }

    async fn holders(&self, conn: &mut MySqlConnection, shard: u16) -> Result<Vec<Holder>, Fault> {
        let read = |row: &MySqlRow| {
            let (number, birth) = (rows::int(row, 0)?, rows::int(row, 1)?);
            let (key, topic) = (rows::text(row, 2)?.to_owned(), rows::text(row, 3)?.to_owned());
            Ok(Holder { number, birth, key, topic })
        };
        self.sql.holders.ask().give(shard).all(conn).await?.iter().map(read).collect()
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
            let Passed { due, number, newest, .. } = some[&row.shard];
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
        self.sql.read_later.ask().rows(named).all(conn).await?.iter().map(claimed).collect()
    }
}
