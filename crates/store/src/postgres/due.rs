//! Later rows that are due, of many shards, as one line in the order in which they became so.
//!
//! Each shard has its own index range, so nothing is sorted: the line takes the earliest of the
//! shards' first rows, and reads on where a shard has run out.

use std::collections::{BTreeMap, VecDeque};

use event::Millis;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::error::Fault;
use super::glance::{Open, number};
use super::rows;
use crate::own::Passed;

/// How many rows of each shard are read at a time: few at first, and at the most.
const CHUNK: (i64, i64) = (32, 4_096);

/// A later row that is due.
pub(super) struct DueRow {
    pub(super) shard: u16,
    pub(super) number: i64,
    pub(super) birth: i64,
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) unexplained: i64,
    pub(super) size: usize,
    pub(super) due: Millis,
    /// Whether it stands where the lane has passed, and is new there.
    pub(super) new: bool,
}

/// The line.
pub(super) struct Line {
    now: Millis,
    chunk: i64,
    shards: BTreeMap<u16, Ahead>,
}

/// What a shard has read ahead.
struct Ahead {
    rows: VecDeque<DueRow>,
    /// The last row that was read.
    place: (Millis, i64),
    /// Whether that was the last one that is due.
    end: bool,
}

impl Line {
    /// Starts behind what each shard has passed.
    pub(super) fn new(now: Millis, passed: &BTreeMap<u16, Passed>) -> Line {
        let ahead = |passed: &Passed| Ahead {
            rows: VecDeque::new(),
            place: match passed.is_nothing() {
                true => (Millis(i64::MIN), 0),
                false => (passed.due, passed.number),
            },
            end: false,
        };
        let shards = passed.iter().map(|(shard, passed)| (*shard, ahead(passed))).collect();
        Line { now, chunk: CHUNK.0, shards }
    }

    /// Reads the rows that have come to stand where the lane has passed.
    pub(super) async fn read_new(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
        passed: &BTreeMap<u16, Passed>,
        open: Open,
    ) -> Result<(), Fault> {
        let passed = || passed.iter().filter(|(_, passed)| !passed.is_nothing());
        let shards: Vec<i16> = passed().map(|(shard, _)| number(*shard)).collect();
        if shards.is_empty() {
            return Ok(());
        }
        let newest: Vec<i64> = passed().map(|(_, passed)| passed.newest).collect();
        let dues: Vec<i64> = passed().map(|(_, passed)| passed.due.0).collect();
        let numbers: Vec<i64> = passed().map(|(_, passed)| passed.number).collect();
        let query = base.sql.new_later.query().bind(shards).bind(newest).bind(dues).bind(numbers);
        let query = query.bind(open.shards).bind(open.xids).bind(open.from);
        for row in query.fetch_all(conn).await? {
            let row = read(&row, true)?;
            let ahead = self.shards.get_mut(&row.shard).expect("only shards of the line are read");
            ahead.rows.push_back(row);
        }
        Ok(())
    }

    /// Returns how many new rows stand where a shard was passed.
    pub(super) fn news(&self, shard: u16) -> usize {
        self.shards.get(&shard).map_or(0, |ahead| ahead.rows.len())
    }

    /// Returns the next row, reading on if a shard has run out.
    pub(super) async fn next(
        &mut self,
        base: &Base,
        conn: &mut PgConnection,
    ) -> Result<Option<DueRow>, Fault> {
        let dry = |ahead: &Ahead| ahead.rows.is_empty() && !ahead.end;
        if self.shards.values().any(dry) {
            self.read_on(base, conn).await?;
        }
        let first = |ahead: &Ahead| ahead.rows.front().map(|row| (row.due, row.number));
        let ahead = self.shards.values_mut().filter(|ahead| !ahead.rows.is_empty());
        let next = ahead.min_by_key(|ahead| first(ahead));
        Ok(next.and_then(|ahead| ahead.rows.pop_front()))
    }

    /// Reads on in every shard that has run low.
    async fn read_on(&mut self, base: &Base, conn: &mut PgConnection) -> Result<(), Fault> {
        let (mut shards, mut dues, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let low = usize::try_from(self.chunk / 4).unwrap_or(0);
        for (shard, ahead) in &mut self.shards {
            if !ahead.end && ahead.rows.len() <= low {
                // It has reached its end unless as many rows as were asked for come back.
                ahead.end = true;
                shards.push(number(*shard));
                dues.push(ahead.place.0.0);
                numbers.push(ahead.place.1);
            }
        }
        let query = base.sql.due_later.query().bind(self.now.0).bind(shards);
        let query = query.bind(dues).bind(numbers).bind(self.chunk);
        let mut read_of: BTreeMap<u16, i64> = BTreeMap::new();
        for row in query.fetch_all(conn).await? {
            let row = read(&row, false)?;
            let ahead = self.shards.get_mut(&row.shard).expect("only shards of the line are read");
            let count = read_of.entry(row.shard).or_default();
            *count += 1;
            ahead.end = *count < self.chunk;
            ahead.place = (row.due, row.number);
            ahead.rows.push_back(row);
        }
        self.chunk = (4 * self.chunk).min(CHUNK.1);
        Ok(())
    }
}

fn read(row: &PgRow, new: bool) -> Result<DueRow, Fault> {
    Ok(DueRow {
        shard: rows::shard(row, 7)?,
        number: row.try_get(0)?,
        birth: row.try_get(1)?,
        topic: rows::text(row, 2)?.to_owned(),
        key: row.try_get(3)?,
        unexplained: i64::from(row.try_get::<i32, _>(4)?),
        size: row.try_get::<Option<i32>, _>(5)?.map_or(0, |size| size.unsigned_abs() as usize),
        due: Millis(row.try_get(6)?),
        new,
    })
}
