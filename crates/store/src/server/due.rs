//! Later rows that are due, of many shards, as one line in the order in which they became so.
//!
//! Each shard has its own index range, so nothing is sorted: the line takes the earliest of the
//! shards' first rows, and reads on where a shard has run out.

use std::collections::{BTreeMap, VecDeque};

use event::Millis;

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use crate::own::Passed;

/// How many rows of each shard are read at a time: few at first, and at the most.
const CHUNK: (i64, i64) = (32, 4_096);

/// A later row that is due.
pub(crate) struct DueRow {
    pub(crate) shard: u16,
    pub(crate) number: i64,
    pub(crate) birth: i64,
    pub(crate) topic: String,
    pub(crate) key: Option<String>,
    pub(crate) unexplained: i64,
    pub(crate) size: usize,
    pub(crate) due: Millis,
    /// Whether it stands where the lane has passed, and is new there.
    pub(crate) new: bool,
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
    pub(super) async fn read_new<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
        lane: usize,
        passed: &BTreeMap<u16, Passed>,
    ) -> Result<(), Fault> {
        if passed.values().all(Passed::is_nothing) {
            return Ok(());
        }
        for row in D::new_later(base, conn, lane, passed).await? {
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
    pub(super) async fn next<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
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
    async fn read_on<D: Dialect>(
        &mut self,
        base: &Base<D>,
        conn: &mut D::Conn,
    ) -> Result<(), Fault> {
        let mut places = Vec::new();
        let low = usize::try_from(self.chunk / 4).unwrap_or(0);
        for (shard, ahead) in &mut self.shards {
            if !ahead.end && ahead.rows.len() <= low {
                // It has reached its end unless as many rows as were asked for come back.
                ahead.end = true;
                places.push((*shard, ahead.place.0, ahead.place.1));
            }
        }
        let mut read_of: BTreeMap<u16, i64> = BTreeMap::new();
        for row in base.db.due_later(conn, self.now, &places, self.chunk).await? {
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
