//! The tables as a listing reads them, all at one moment.

use std::collections::HashMap;

use async_trait::async_trait;
use event::{Filter, Listed, Millis};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::glance;
use super::rows;
use crate::listing::{Asked, Part, Place, Stretch, Tables};

/// The tables, read through one transaction.
pub(super) struct Shelves<'a> {
    pub(super) base: &'a Base,
    pub(super) conn: &'a mut SqliteConnection,
}

#[async_trait]
impl Tables for Shelves<'_> {
    type Fault = Fault;

    async fn now(&mut self) -> Result<i64, Fault> {
        Ok(glance(self.base, self.conn, 0, Millis(0)).await?.now.0)
    }

    async fn read(
        &mut self,
        asked: &Asked<'_>,
        place: Place,
        part: Part,
    ) -> Result<Vec<Listed>, Fault> {
        let Filter { id, key, kind, topic, status, code } = asked.filter;
        let after = asked.after(place);
        let query = self.base.sql.find(place, asked.filter).query();
        let query = query.bind(after.created).bind(&after.id);
        let query = query.bind(id.map(|id| id.to_string())).bind(key.as_deref());
        let query = query.bind(kind.as_deref()).bind(topic.as_deref());
        let query = query.bind(asked.page.payloads).bind(asked.limit()).bind(part.0);
        let query = query.bind(status.map(|status| status.as_str())).bind(asked.now);
        let query = query.bind(code.as_deref()).bind(part.1);
        query.fetch_all(&mut *self.conn).await?.iter().map(listed).collect()
    }

    async fn stretch(&mut self, top: i64) -> Result<Stretch, Fault> {
        let query = self.base.sql.find_hot_floor.query().bind(top).bind(self.base.many);
        let row = query.fetch_one(&mut *self.conn).await?;
        let below: Option<i64> = row.try_get(1)?;
        Ok(Stretch { top: row.try_get(0)?, below: below.zip(row.try_get(2)?) })
    }

    async fn floor(
        &mut self,
        place: Place,
        created: i64,
        key: Option<&str>,
    ) -> Result<Option<i64>, Fault> {
        let sql = self.base.sql.floor(place, key.is_some());
        let query = sql.query().bind(created).bind(self.base.many).bind(key);
        let row = query.fetch_optional(&mut *self.conn).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn near(&mut self, made: i64) -> Result<Option<Part>, Fault> {
        let query = self.base.sql.find_hot_near.query().bind(made);
        let row = query.fetch_optional(&mut *self.conn).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.map(|low| (low, self.base.many)))
    }

    async fn behind(&mut self, keys: Vec<String>) -> Result<HashMap<String, i64>, Fault> {
        let json = serde_json::to_string(&keys).expect("texts are always JSON");
        let query = self.base.sql.behind.query().bind(json).bind(self.base.many);
        let mut counts = HashMap::new();
        for row in query.fetch_all(&mut *self.conn).await? {
            counts.insert(rows::lenient(&row, 0)?.into_owned(), row.try_get(1)?);
        }
        Ok(counts)
    }
}

fn listed(row: &SqliteRow) -> Result<Listed, Fault> {
    let status: &str = row.try_get(8)?;
    Ok(Listed {
        event: rows::shown(row, 0)?,
        status: status.parse().expect("a statement names a status"),
        attempts: u32::try_from(row.try_get::<i64, _>(9)?).unwrap_or(u32::MAX),
        next_attempt: row.try_get::<Option<i64>, _>(10)?.map(Millis),
        trail: rows::trail(row, 11)?,
        broker_id: row.try_get(12)?,
        updated: Millis(row.try_get(13)?),
        behind: 0,
    })
}
