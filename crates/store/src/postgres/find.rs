//! The tables as a listing reads them, all at one moment.

use std::collections::HashMap;

use async_trait::async_trait;
use event::{Filter, Listed};
use sqlx::postgres::PgArguments;
use sqlx::{PgConnection, Row};

use super::statements::Sql;
use super::{Postgres, rows};
use crate::listing::{Asked, Part, Place, Stretch, Tables};
use crate::server::{Base, Connects, Fault};

/// The tables, read through one transaction.
pub(super) struct Shelves<'a> {
    pub(super) base: &'a Base<Postgres>,
    pub(super) conn: &'a mut PgConnection,
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
        let sql = self.base.db.sql.find(place, asked.filter);
        let query = bind(sql, asked, place, part);
        query.fetch_all(&mut *self.conn).await?.iter().map(rows::listed).collect()
    }

    async fn stretch(&mut self, top: i64) -> Result<Stretch, Fault> {
        let query = self.base.db.sql.find_hot_floor.query().bind(top).bind(self.base.many);
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
        let query = self.base.db.sql.floor(place, key.is_some()).query();
        let query = query.bind(created).bind(self.base.many);
        let query = match (place, key) {
            (Place::Sent, Some(key)) => query.bind(key),
            (Place::Sent, None) => query.bind(self.base.now()),
            _ => query,
        };
        let row = query.fetch_optional(&mut *self.conn).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn near(&mut self, made: i64) -> Result<Option<Part>, Fault> {
        let query = self.base.db.sql.find_hot_near.query().bind(made);
        let row = query.fetch_optional(&mut *self.conn).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.map(|low| (low, self.base.many)))
    }

    async fn behind(&mut self, keys: Vec<String>) -> Result<HashMap<String, i64>, Fault> {
        if self.base.competes() {
            return Ok(HashMap::new());
        }
        let shards = i64::from(self.base.shards(self.conn).await?);
        let query = self.base.db.sql.behind.query().bind(keys).bind(self.base.many / shards + 1);
        let mut counts = HashMap::new();
        for row in query.fetch_all(&mut *self.conn).await? {
            counts.insert(rows::text(&row, 0)?.to_owned(), row.try_get(1)?);
        }
        Ok(counts)
    }
}

/// Gives a statement what it asks for: the server counts, so nothing more and nothing less.
fn bind<'q>(
    sql: &Sql,
    asked: &'q Asked<'_>,
    place: Place,
    part: Part,
) -> sqlx::query::Query<'q, sqlx::Postgres, PgArguments> {
    let Filter { id, key, kind, topic, status, code } = asked.filter;
    let (id, status) = (id.map(|id| id.to_string()), status.map(|status| status.as_str()));
    let after = asked.after(place);
    let query = sql.query().bind(after.created).bind(&after.id);
    let query = query.bind(asked.page.payloads).bind(asked.limit());
    let query = query.bind(key.as_deref()).bind(kind.as_deref()).bind(topic.as_deref());
    match (place, id) {
        (Place::Hot, id) => {
            let query = query.bind(part.0).bind(part.1).bind(status).bind(asked.now);
            if id.is_some() { query.bind(id) } else { query }
        }
        (Place::Later, id) => {
            let query = query.bind(part.0).bind(code.as_deref()).bind(status).bind(asked.now);
            if id.is_some() { query.bind(id).bind(part.1) } else { query }
        }
        (Place::Dead | Place::Sent, Some(id)) => query.bind(id).bind(code.as_deref()),
        (Place::Sent, None) if key.is_none() => {
            query.bind(part.0).bind(code.as_deref()).bind(asked.now)
        }
        (Place::Dead | Place::Sent, None) => query.bind(part.0).bind(code.as_deref()),
    }
}
