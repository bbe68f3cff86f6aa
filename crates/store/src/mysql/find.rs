//! The tables as a listing reads them, all at one moment.

use std::collections::HashMap;

use async_trait::async_trait;
use event::{Filter, Listed, Millis, Status};
use sqlx::MySqlConnection;
use sqlx::mysql::MySqlRow;

use super::count::{Named, leases};
use super::statements::Ask;
use super::{MySql, rows};
use crate::listing::{Asked, Part, Place, Stretch, Tables};
use crate::server::rows::Cells;
use crate::server::{Base, Connects, Fault};

/// How many shards one statement looks at.
const AT_ONCE: usize = 64;

/// The tables, read through one transaction.
pub(super) struct Shelves<'a> {
    pub(super) base: &'a Base<MySql>,
    pub(super) conn: &'a mut MySqlConnection,
}

#[async_trait]
impl Tables for Shelves<'_> {
    type Fault = Fault;

    async fn now(&mut self) -> Result<i64, Fault> {
        Ok(self.base.db.clock(self.conn, self.base.now()).await?.0)
    }

    async fn read(
        &mut self,
        asked: &Asked<'_>,
        place: Place,
        part: Part,
    ) -> Result<Vec<Listed>, Fault> {
        if place == Place::Hot {
            return self.read_hot(asked, part).await;
        }
        let ask = give(self.base.db.sql.find(place, asked.filter).ask(), asked, place);
        let Filter { id, status, code, .. } = asked.filter;
        let (id, code) = (id.map(|id| id.to_string()), code.as_deref());
        let ask = match (place, id) {
            (Place::Hot | Place::Later, id) => {
                let status = status.map(|status| status.as_str());
                let ask = ask.give(part.0).give(code).give(status).give(asked.now);
                if id.is_some() { ask.give(id).give(part.1) } else { ask }
            }
            (Place::Dead | Place::Sent, Some(id)) => ask.give(id).give(code),
            (Place::Dead | Place::Sent, None) => ask.give(part.0).give(code),
        };
        ask.all(&mut *self.conn).await?.iter().map(rows::listed).collect()
    }

    async fn stretch(&mut self, top: i64) -> Result<Stretch, Fault> {
        let newest = self.edge(i64::MAX).await?.map_or(0, |(seq, _)| seq);
        let top = top.min(newest);
        let below = self.edge(top.saturating_sub(self.base.many)).await?;
        Ok(Stretch { top, below })
    }

    async fn floor(
        &mut self,
        place: Place,
        created: i64,
        key: Option<&str>,
    ) -> Result<Option<i64>, Fault> {
        let ask = self.base.db.sql.floor(place, key.is_some()).ask();
        let ask = ask.give(created).give(self.base.many);
        let ask = match (place, key) {
            (Place::Sent, Some(key)) => ask.give(key),
            _ => ask,
        };
        let row = ask.any(&mut *self.conn).await?;
        row.map(|row| rows::int(&row, 0)).transpose()
    }

    /// Halves the numbers: they grow with time.
    async fn near(&mut self, made: i64) -> Result<Option<Part>, Fault> {
        let Some((mut low, _)) = self.from(0).await? else { return Ok(None) };
        let mut high = self.edge(i64::MAX).await?.map_or(low, |(seq, _)| seq);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.from(middle).await? {
                Some((seq, created)) if created < made => low = seq + 1,
                _ => high = middle,
            }
        }
        Ok(Some((low - 1, self.base.many)))
    }

    async fn behind(&mut self, keys: Vec<String>) -> Result<HashMap<String, i64>, Fault> {
        if self.base.competes() {
            return Ok(HashMap::new());
        }
        let shards: Vec<u16> = (0..self.base.shards(self.conn).await?).collect();
        let most = self.base.many / i64::try_from(shards.len()).unwrap_or(1).max(1) + 1;
        let mut counts: HashMap<String, i64> = HashMap::new();
        for some in shards.chunks(AT_ONCE) {
            let each = some.iter().map(|shard| vec![(*shard).into()]).collect();
            let ask = self.base.db.sql.behind.ask().list(keys.iter().map(String::as_str));
            for row in ask.give(most).each(each).all(&mut *self.conn).await? {
                let key = row.cell_bytes(0)?.unwrap_or_default();
                let key = String::from_utf8_lossy(key).into_owned();
                *counts.entry(key).or_default() += rows::int(&row, 1)?;
            }
        }
        Ok(counts)
    }
}

impl Shelves<'_> {
    /// Reads hot rows. The lease rows say which of them are in flight.
    async fn read_hot(&mut self, asked: &Asked<'_>, part: Part) -> Result<Vec<Listed>, Fault> {
        let sql = &self.base.db.sql;
        let named = leases(sql, self.conn, Some(asked.now)).await?.named;
        let ask = give(self.base.db.sql.find(Place::Hot, asked.filter).ask(), asked, Place::Hot);
        let Filter { id, status, .. } = asked.filter;
        let live = named.iter().filter(|one| one.live).map(|one| one.seq);
        let ask = ask.give(part.0).give(part.1).give(status.map(|status| status.as_str()));
        let ask = ask.list(live);
        let ask = match id {
            Some(id) => ask.give(id.to_string()),
            None => ask,
        };
        let rows = ask.all(&mut *self.conn).await?;
        rows.iter().map(|row| listed_hot(row, &named)).collect()
    }

    /// Reads the newest hot row up to a number.
    async fn edge(&mut self, to: i64) -> Result<Option<(i64, i64)>, Fault> {
        let ask = self.base.db.sql.find_hot_edge.ask().give(to);
        pair(ask.any(&mut *self.conn).await?)
    }

    /// Reads the oldest hot row from a number on.
    async fn from(&mut self, from: i64) -> Result<Option<(i64, i64)>, Fault> {
        let ask = self.base.db.sql.find_hot_near.ask().give(from);
        pair(ask.any(&mut *self.conn).await?)
    }
}

fn pair(row: Option<MySqlRow>) -> Result<Option<(i64, i64)>, Fault> {
    row.map(|row| Ok((rows::int(&row, 0)?, rows::int(&row, 1)?))).transpose()
}

/// Gives a statement what every one of them takes.
fn give<'s>(ask: Ask<'s>, asked: &Asked<'_>, place: Place) -> Ask<'s> {
    let Filter { key, kind, topic, .. } = asked.filter;
    let after = asked.after(place);
    let ask = ask.give(after.created).give(&*after.id).give(asked.page.payloads);
    let ask = ask.give(asked.limit()).give(key.as_deref());
    ask.give(kind.as_deref()).give(topic.as_deref())
}

fn listed_hot(row: &MySqlRow, named: &[Named]) -> Result<Listed, Fault> {
    let event = rows::shown(row, 0)?;
    let (seq, shard) = (rows::int(row, 8)?, rows::shard(row, 9)?);
    let flight = named.iter().find(|one| one.seq == seq && one.shard == shard);
    let live = flight.is_some_and(|one| one.live);
    let updated: Millis = event.created;
    Ok(Listed {
        event,
        status: if live { Status::Dispatching } else { Status::New },
        attempts: u32::from(flight.is_some()),
        next_attempt: Some(flight.map_or(updated, |one| one.until)),
        trail: Vec::new(),
        broker_id: None,
        updated,
        behind: 0,
    })
}
