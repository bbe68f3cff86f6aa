//! What competing relays ask: whose a line is for the moment, and with which strategy the outbox is
//! claimed.
//!
//! Rows are opened first, by primary key, and whoever has them open changes them: these servers
//! tell nobody which rows a statement has changed.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use event::{EventId, Fence, Millis};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::claims::{AT_ONCE as SHARDS, Read, begin, claimed};
use super::looks::{appeared, late, peek};
use super::moves::AT_ONCE;
use super::template::Value;
use super::{MySql, flight, parcel, rows};
use crate::Strategy;
use crate::compete::Line;
use crate::server::rows::Cells;
use crate::server::{Base, Claimed, Competes, Fault, Glance, Leases, Seen, Shown, Waits};

/// What was read of some shards.
#[derive(Default)]
struct Next {
    /// The shards that were looked at.
    shards: Vec<u16>,
    /// The rows by their numbers and shards.
    line: BTreeMap<(i64, u16), MySqlRow>,
    /// Where the last shard's look ended, if there may be more.
    cut: Option<(u16, i64)>,
}

/// Reads the next hot rows of shards in the order given, of ever more shards at once, until there
/// are enough.
async fn next(
    base: &Base<MySql>,
    conn: &mut MySqlConnection,
    begins: &[(u16, i64)],
    chunk: i64,
) -> Result<Next, Fault> {
    let (mut next, mut at_once, mut rest) = (Next::default(), 1, begins);
    while !rest.is_empty() {
        let left = chunk - next.line.len() as i64;
        let (some, others) = rest.split_at(at_once.min(rest.len()));
        let each = some.iter().map(|(shard, from)| vec![(*shard).into(), (*from).into()]);
        let ask = base.db.sql.next_hot.ask().give(left).each(each.collect());
        let mut found: HashMap<u16, Vec<(i64, MySqlRow)>> = HashMap::new();
        for row in ask.all(&mut *conn).await? {
            found.entry(rows::shard(&row, 9)?).or_default().push((rows::int(&row, 0)?, row));
        }
        for (shard, _) in some {
            next.shards.push(*shard);
            for (seq, row) in found.remove(shard).unwrap_or_default() {
                next.line.insert((seq, *shard), row);
                if next.line.len() as i64 == chunk {
                    next.cut = Some((*shard, seq));
                    return Ok(next);
                }
            }
        }
        (rest, at_once) = (others, (2 * at_once).min(SHARDS));
    }
    Ok(next)
}

impl MySql {
    /// Opens lines in one order for everybody, of those with a relay's name if one is given.
    async fn hold(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        owner: Option<&str>,
        mut shards: Vec<u16>,
    ) -> Result<Vec<Line>, Fault> {
        shards.sort_unstable();
        let named = shards.into_iter().map(|shard| vec![shard.into()]).collect();
        let ask = self.sql.line_hold.ask().give(now).give(owner).rows(named);
        ask.all(conn).await?.iter().map(line).collect()
    }

    /// Opens lines whose fences are as they were seen, in one order for everybody.
    async fn win(
        &self,
        conn: &mut MySqlConnection,
        mut lines: Vec<(u16, Fence)>,
    ) -> Result<Vec<u16>, Fault> {
        lines.sort_unstable();
        let mut won = Vec::new();
        for (shard, fence) in lines {
            let ask = self.sql.line_win.ask().give(shard).give(fence.0);
            if ask.run(&mut *conn).await?.rows_affected() > 0 {
                won.push(shard);
            }
        }
        Ok(won)
    }
}

/// Reads a line that is open.
fn line(row: &MySqlRow) -> Result<Line, Fault> {
    Ok(Line {
        shard: rows::shard(row, 0)?,
        fence: Fence(rows::int(row, 1)?),
        now: Millis(rows::int(row, 2)?),
        out: flight::read_named(rows::text(row, 3)?),
    })
}

#[async_trait]
impl Competes for MySql {
    async fn see(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        lane: usize,
        shards: &[u16],
        longest: i64,
    ) -> Result<Seen<MySql>, Fault> {
        peek(base, conn, lane, shards).await?;
        let (mut now, mut waits) = (Millis(0), HashMap::new());
        for some in shards.chunks(SHARDS) {
            let begins: Vec<Vec<Value>> = {
                let desk = &base.holding().desks[lane];
                some.iter().map(|shard| vec![(*shard).into(), begin(desk, *shard).into()]).collect()
            };
            for row in base.db.sql.see.ask().give(base.now()).each(begins).all(&mut *conn).await? {
                now = Millis(rows::int(&row, 0)?);
                let shard = rows::shard(&row, 1)?;
                let (ahead, due) = (rows::int(&row, 2)? != 0, row.cell_int(3)?.map(Millis));
                let fence = Fence(rows::int(&row, 4)?);
                let ends = (row.cell_int(5)?.map(Millis), row.cell_int(6)?.map(Millis));
                let ends = ends.0.zip(ends.1);
                waits.insert(shard, Waits { shard, fence, ends, ahead, due });
            }
        }
        for shard in appeared(base, conn, lane, shards).await? {
            waits.entry(shard).and_modify(|waits| waits.ahead = true);
        }
        let row = base.db.sql.astray.ask().give(now.0.saturating_add(longest)).one(conn).await?;
        let (newest, astray) = (rows::int(&row, 0)?, rows::int(&row, 1)? != 0);
        let waits = shards.iter().filter_map(|shard| waits.remove(shard)).collect();
        let glance = Glance { looks: Vec::new(), now, newest, seen: Read::Apart };
        Ok(Seen { glance, waits, astray })
    }

    /// What is above comes first, as under `own`.
    async fn candidates(
        base: &Base<MySql>,
        conn: &mut MySqlConnection,
        lane: usize,
        shards: &[u16],
        chunk: i64,
    ) -> Result<Shown<MySql>, Fault> {
        let begins: Vec<(u16, i64)> = {
            let desk = &base.holding().desks[lane];
            shards.iter().map(|shard| (*shard, begin(desk, *shard))).collect()
        };
        let Next { shards, mut line, cut } = next(base, conn, &begins, chunk).await?;
        let end = |shard| cut.filter(|(last, _)| *last == shard).map(|(_, seq)| seq);
        let late = late(base, conn, lane, &shards, chunk, end).await?;
        line.extend(late.rows.into_iter().map(|(seq, shard, row)| ((seq, shard), row)));
        let line = line.into_iter().map(|((seq, shard), row)| (seq, shard, row)).collect();
        let (from, cut) = (begins.into_iter().collect(), cut.is_some());
        Ok(Shown { line, seen: Read::Apart, from, cut })
    }

    async fn preempt(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        owner: &str,
        (until, longest): (Millis, i64),
        shards: &[u16],
        most: usize,
    ) -> Result<Vec<u16>, Fault> {
        let mut named = Vec::new();
        for shard in shards {
            let ask = self.sql.line_preempt.ask().give(owner).give(until.0).give(*shard);
            if ask.give(now).give(longest).run(&mut *conn).await?.rows_affected() > 0 {
                named.push(*shard);
            }
            if named.len() == most {
                break;
            }
        }
        Ok(named)
    }

    async fn open_lines(
        &self,
        conn: &mut MySqlConnection,
        strategy: Strategy,
        now: Option<i64>,
        owner: &str,
        lines: &[(u16, Fence)],
        most: usize,
    ) -> Result<Vec<Line>, Fault> {
        let shards = || lines.iter().map(|(shard, _)| *shard);
        match strategy {
            Strategy::SkipLocked => {
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                let named = shards().map(|shard| vec![shard.into()]).collect();
                let ask = self.sql.line_free.ask().give(now).give(most).rows(named);
                ask.all(conn).await?.iter().map(line).collect()
            }
            Strategy::Preempt => self.hold(conn, now, Some(owner), shards().collect()).await,
            _ => {
                let won = self.win(conn, lines[..most.min(lines.len())].to_vec()).await?;
                match won.is_empty() {
                    true => Ok(Vec::new()),
                    false => self.hold(conn, now, None, won).await,
                }
            }
        }
    }

    async fn hold_lines(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
        shards: &[u16],
    ) -> Result<Vec<Line>, Fault> {
        self.hold(conn, now, None, shards.to_vec()).await
    }

    async fn write_lines(
        &self,
        conn: &mut MySqlConnection,
        owner: &str,
        lines: &[Line],
    ) -> Result<(), Fault> {
        let texts = lines.iter().map(|line| (line, flight::write_named(&line.out)));
        for part in parcel::part(texts.collect(), |(_, out)| out.len()) {
            let row = |(line, out): (&Line, String)| {
                vec![line.shard.into(), line.fence.0.into(), out.into()]
            };
            let named = part.into_iter().map(row).collect();
            self.sql.line_write.ask().give(owner).rows(named).run(&mut *conn).await?;
        }
        Ok(())
    }

    async fn win_later(
        &self,
        conn: &mut MySqlConnection,
        strategy: Strategy,
        due: &[(i64, Millis)],
        now: Millis,
        until: Millis,
    ) -> Result<Vec<(Claimed, Fence)>, Fault> {
        let sql = match strategy {
            Strategy::SkipLocked => &self.sql.open_due_free,
            _ => &self.sql.open_due,
        };
        let mut won = Vec::new();
        for some in due.chunks(AT_ONCE) {
            let named = some.iter().map(|(number, due)| vec![(*number).into(), due.0.into()]);
            let open = sql.ask().rows(named.collect()).all(&mut *conn).await?;
            let open = open.iter().map(|row| Ok(vec![rows::int(row, 0)?.into()]));
            let open = open.collect::<Result<Vec<Vec<Value>>, Fault>>()?;
            if open.is_empty() {
                continue;
            }
            let ask = self.sql.win_later.ask().give(now.0).give(until.0);
            ask.rows(open.clone()).run(&mut *conn).await?;
            for row in self.sql.read_later.ask().rows(open).all(&mut *conn).await? {
                won.push((claimed(&row)?, Fence(rows::int(&row, 12)?)));
            }
        }
        Ok(won)
    }

    async fn still(
        &self,
        conn: &mut MySqlConnection,
        out: &[(i64, Fence, EventId)],
    ) -> Result<HashSet<i64>, Fault> {
        let mut still = HashSet::new();
        for some in out.chunks(AT_ONCE) {
            let named = some.iter().map(|(number, fence, id)| {
                vec![(*number).into(), fence.0.into(), id.to_string().into()]
            });
            for row in self.sql.still.ask().rows(named.collect()).all(&mut *conn).await? {
                still.insert(rows::int(&row, 0)?);
            }
        }
        Ok(still)
    }

    async fn count_sent(
        &self,
        conn: &mut MySqlConnection,
        shard: u16,
        sent: usize,
    ) -> Result<(), Fault> {
        let sent = i64::try_from(sent).unwrap_or(i64::MAX);
        self.sql.count_sent.ask().give(shard).give(sent).run(conn).await?;
        Ok(())
    }

    async fn strategy(
        &self,
        conn: &mut MySqlConnection,
        now: Option<i64>,
    ) -> Result<Option<(String, Millis)>, Fault> {
        let row = self.sql.strategy.ask().give(now).any(conn).await?;
        let read =
            |row: MySqlRow| Ok((rows::text(&row, 0)?.to_owned(), Millis(rows::int(&row, 1)?)));
        row.map(read).transpose()
    }

    async fn write_strategy(
        &self,
        conn: &mut MySqlConnection,
        strategy: Strategy,
    ) -> Result<(), Fault> {
        self.sql.free_leases.ask().give(strategy.competes()).run(&mut *conn).await?;
        let shards = u16::try_from(self.shards(conn).await?).unwrap_or(u16::MAX);
        let shards: Vec<u16> = (0..shards).collect();
        self.mark(conn, &shards).await?;
        self.sql.write_strategy.ask().give(strategy.name()).run(conn).await?;
        Ok(())
    }

    async fn last_claim(
        &self,
        conn: &mut MySqlConnection,
        longest: Millis,
    ) -> Result<Option<Millis>, Fault> {
        let row = self.sql.last_claim.ask().give(longest.0).one(conn).await?;
        Ok(row.cell_int(0)?.map(Millis))
    }

    async fn others(&self, conn: &mut MySqlConnection, owner: &str) -> Result<Vec<Millis>, Fault> {
        let others = self.sql.others.ask().give(owner).all(conn).await?;
        others.iter().map(|row| Ok(Millis(rows::int(row, 0)?))).collect()
    }

    async fn return_later(
        &self,
        conn: &mut MySqlConnection,
        now: Millis,
        longest: i64,
    ) -> Result<(), Fault> {
        let shards = u16::try_from(self.shards(conn).await?).unwrap_or(u16::MAX);
        let beyond = Millis(now.0.saturating_add(longest));
        self.make_due(conn, 0..shards, now, beyond).await
    }
}
