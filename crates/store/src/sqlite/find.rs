//! Searching all four tables for a page of events, newest first.
//!
//! A page ends at a moment and an identity, so the next one costs no more than the first.

use std::collections::HashMap;

use event::{
    Cause, Code, Cursor, EventId, Filter, Listed, Listing, Millis, Page, Status, StoreError,
};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use super::base::Base;
use super::error::Fault;
use super::glance::Glance;
use super::rows;
use super::statements::Sql;

/// How many rows are searched or counted one by one where no index helps.
pub(super) const MANY: i64 = 100_000;

/// Lists a page.
pub(super) async fn find(
    base: &Base,
    conn: &mut SqliteConnection,
    filter: &Filter,
    page: &Page,
) -> Result<Listing, Fault> {
    let search = Search::new(base, conn, filter, page).await?;
    let mut found: Vec<(Place, Listed)> = Vec::new();
    for place in Place::ALL.into_iter().filter(|place| place.may_hold(filter)) {
        let query = search.bind(place.statement(base, filter), place);
        for row in query.fetch_all(&mut *conn).await? {
            found.push((place, listed(&row, place)?));
        }
    }
    found.sort_by_key(|(_, listed)| std::cmp::Reverse((listed.event.created, listed.event.id)));
    let more = found.len() > page.limit;
    found.truncate(page.limit);
    behind(base, conn, &mut found).await?;
    let events: Vec<Listed> = found.into_iter().map(|(_, listed)| listed).collect();
    let next = events.last().filter(|_| more).map(|last| cursor(&last.event));
    Ok(Listing { events, next, searched_to: None })
}

/// A table that a listing reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Hot,
    Later,
    Dead,
    Sent,
}

impl Place {
    const ALL: [Place; 4] = [Place::Hot, Place::Later, Place::Dead, Place::Sent];

    fn may_hold(self, filter: &Filter) -> bool {
        let of =
            |statuses: &[Status]| filter.status.is_none_or(|wanted| statuses.contains(&wanted));
        match self {
            Place::Hot => filter.code.is_none() && of(&[Status::New, Status::Dispatching]),
            Place::Later => of(&[Status::Retry, Status::Dispatching]),
            Place::Dead => of(&[Status::Dead]),
            Place::Sent => of(&[Status::Sent]),
        }
    }

    fn statement<'a>(self, base: &'a Base, filter: &Filter) -> &'a Sql {
        match self {
            Place::Hot => &base.sql.find_hot,
            Place::Later => &base.sql.find_later,
            Place::Dead => &base.sql.find_dead,
            Place::Sent if filter.id.is_some() => &base.sql.find_sent_id,
            Place::Sent if filter.key.is_some() => &base.sql.find_sent_key,
            Place::Sent => &base.sql.find_sent,
        }
    }

    /// Names the status of a row of this table that is in flight, or is not.
    fn status(self, out: bool) -> Status {
        match (self, out) {
            (Place::Hot | Place::Later, true) => Status::Dispatching,
            (Place::Hot, false) => Status::New,
            (Place::Later, false) => Status::Retry,
            (Place::Dead, _) => Status::Dead,
            (Place::Sent, _) => Status::Sent,
        }
    }
}

/// What every statement of one search is given.
struct Search<'a> {
    filter: &'a Filter,
    page: &'a Page,
    after: (i64, String),
    floor: i64,
    now: i64,
}

impl<'a> Search<'a> {
    async fn new(
        base: &Base,
        conn: &mut SqliteConnection,
        filter: &'a Filter,
        page: &'a Page,
    ) -> Result<Search<'a>, Fault> {
        let after = match &page.after {
            Some(cursor) => read_cursor(cursor)?,
            None => (i64::MAX, String::new()),
        };
        let indexed = filter.id.is_some() || filter.key.is_some();
        let narrowed = filter.kind.is_some() || filter.topic.is_some() || filter.code.is_some();
        let mut floor = i64::MIN;
        if narrowed && !indexed {
            let query = base.sql.find_sent_floor.query().bind(after.0).bind(MANY);
            let row = query.fetch_optional(&mut *conn).await?;
            floor = row.map(|row| row.try_get(0)).transpose()?.unwrap_or(i64::MIN);
        }
        let now = Glance::read(base, conn, 0, Millis(0)).await?.now;
        Ok(Search { filter, page, after, floor, now: now.0 })
    }

    fn bind<'q>(
        &'q self,
        sql: &Sql,
        place: Place,
    ) -> sqlx::query::Query<'q, Sqlite, SqliteArguments> {
        let Filter { id, key, kind, topic, status, code } = self.filter;
        let out = status.map(|status| status == Status::Dispatching);
        let limit = i64::try_from(self.page.limit).unwrap_or(i64::MAX - 1) + 1;
        let bound = if place == Place::Sent { self.floor } else { MANY };
        let query = sql.query().bind(self.after.0).bind(&self.after.1);
        let query = query.bind(id.map(|id| id.to_string())).bind(key.as_deref());
        let query = query.bind(kind.as_deref()).bind(topic.as_deref());
        let query = query.bind(self.page.payloads).bind(limit).bind(bound);
        query.bind(out).bind(self.now).bind(code.as_deref())
    }
}

fn listed(row: &SqliteRow, place: Place) -> Result<Listed, Fault> {
    let waits = matches!(place, Place::Hot | Place::Later);
    let due: Option<i64> = row.try_get(10)?;
    Ok(Listed {
        event: rows::shown(row, 0)?,
        status: place.status(row.try_get(8)?),
        attempts: u32::try_from(row.try_get::<i64, _>(9)?).unwrap_or(u32::MAX),
        next_attempt: due.map(Millis).filter(|_| waits),
        trail: rows::trail(row, 11)?,
        broker_id: row.try_get(12)?,
        updated: Millis(row.try_get(13)?),
        behind: 0,
    })
}

/// Counts who waits behind the rows that hold their keys.
async fn behind(
    base: &Base,
    conn: &mut SqliteConnection,
    found: &mut [(Place, Listed)],
) -> Result<(), Fault> {
    let holds = |(place, listed): &&mut (Place, Listed)| {
        *place == Place::Later && listed.attempts > 0 && listed.event.key.is_some()
    };
    let keys: Vec<String> =
        found.iter_mut().filter(holds).filter_map(|(_, listed)| listed.event.key.clone()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let json = serde_json::to_string(&keys).expect("texts are always JSON");
    let mut counts: HashMap<String, i64> = HashMap::new();
    for row in base.sql.behind.query().bind(json).bind(MANY).fetch_all(conn).await? {
        counts.insert(rows::lenient(&row, 0)?.into_owned(), row.try_get(1)?);
    }
    for (_, listed) in found.iter_mut().filter(holds) {
        let count = listed.event.key.as_ref().and_then(|key| counts.get(key));
        listed.behind = count.and_then(|count| u64::try_from(*count).ok()).unwrap_or(0);
    }
    Ok(())
}

fn cursor(last: &event::Event) -> Cursor {
    Cursor(format!("{}.{}", last.created.0, last.id))
}

fn read_cursor(Cursor(text): &Cursor) -> Result<(i64, String), StoreError> {
    let parts = text.split_once('.').and_then(|(created, id)| {
        Some((created.parse().ok()?, id.parse::<EventId>().ok()?.to_string()))
    });
    parts.ok_or_else(|| {
        let detail = format!("{text:?} is no place in a listing; start again without it");
        StoreError::Broken(Cause::new(Code::ConfigInvalid, detail))
    })
}
