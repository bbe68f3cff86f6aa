//! Searching all four tables for a page of events, newest first.
//!
//! A page ends at a moment and an identity, so the next one costs no more than the first. Where no
//! index finds what is asked for, a page looks at a bounded part and says how far it came.

mod place;
mod reach;

use std::collections::HashMap;

use event::{EventId, Filter, Listed, Listing, Millis, Page};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite, SqliteConnection};

use self::place::Place;
use self::reach::{Cut, Mark, Reach, made_at};
use super::base::Base;
use super::error::Fault;
use super::glance::Glance;
use super::rows;
use super::statements::Sql;

/// How much older, and how much younger, a row may be than the identity that its producer made
/// for it, to be looked up at once.
const NEAR: (i64, i64) = (2_000, 60_000);

/// Lists a page.
pub(super) async fn find(
    base: &Base,
    conn: &mut SqliteConnection,
    filter: &Filter,
    page: &Page,
) -> Result<Listing, Fault> {
    let now = Glance::read(base, conn, 0, Millis(0)).await?.now.0;
    let reach = page.after.as_ref().map_or_else(|| Ok(Reach::start()), Reach::read)?;
    let mut search = Search { base, filter, page, reach, now };
    let (mut found, cut) = match filter.id {
        Some(id) => (search.look_up(conn, id).await?, Cut::default()),
        None => search.gather(conn).await?,
    };
    found.sort_by_key(|(_, listed)| std::cmp::Reverse((listed.event.created, listed.event.id)));
    let searched_to = cut.searched_to();
    if let Some(floor) = searched_to {
        let whole = |place: Place| place == Place::Hot && cut.ends_stretch();
        found.retain(|(place, listed)| whole(*place) || listed.event.created.0 >= floor);
    }
    let full = found.len() > page.limit;
    found.truncate(page.limit);
    behind(base, conn, &mut found).await?;
    let events: Vec<Listed> = found.into_iter().map(|(_, listed)| listed).collect();
    let next = match (events.last(), searched_to) {
        (Some(last), _) if full => Some(search.reach.after_page(last, &cut)),
        (_, Some(to)) if !full => Some(search.reach.after_search(to, &cut)),
        _ => None,
    };
    let next = next.map(|reach| reach.cursor());
    Ok(Listing { events, next, searched_to: searched_to.filter(|_| !full).map(Millis) })
}

/// What every statement of one search is given.
struct Search<'a> {
    base: &'a Base,
    filter: &'a Filter,
    page: &'a Page,
    reach: Reach,
    now: i64,
}

/// Which part of a table a statement reads: two bounds of its own kind.
type Part = (i64, i64);

const WHOLE: Part = (i64::MIN, i64::MAX);

impl Search<'_> {
    /// Reads every table that may hold what is asked for, as far as one page may search.
    async fn gather(
        &mut self,
        conn: &mut SqliteConnection,
    ) -> Result<(Vec<(Place, Listed)>, Cut), Fault> {
        let (mut found, mut cut) = (Vec::new(), Cut::default());
        for place in Place::ALL.into_iter().filter(|place| place.may_hold(self.filter)) {
            let part = match place {
                Place::Hot => {
                    cut.hot = self.cut_hot(conn).await?;
                    (cut.hot.map_or(i64::MIN, |(low, _)| low), self.reach.top)
                }
                _ => {
                    let floor = self.floor(conn, place).await?;
                    cut.floor = cut.floor.max(floor);
                    (floor.unwrap_or(i64::MIN), i64::MAX)
                }
            };
            let sql = place.page(&self.base.sql, self.filter);
            self.read(conn, place, sql, part, &mut found).await?;
        }
        Ok((found, cut))
    }

    /// Looks an identity up: where its own moment says, and only if it is nowhere, everywhere.
    async fn look_up(
        &mut self,
        conn: &mut SqliteConnection,
        id: EventId,
    ) -> Result<Vec<(Place, Listed)>, Fault> {
        let mut found = Vec::new();
        let places = || Place::ALL.into_iter().filter(|place| place.may_hold(self.filter));
        for place in places() {
            let part = match (place, made_at(id)) {
                (Place::Dead | Place::Sent, _) => WHOLE,
                (Place::Hot, Some(made)) => {
                    let query = self.base.sql.find_hot_near.query().bind(made.0 - NEAR.0);
                    let Some(row) = query.fetch_optional(&mut *conn).await? else { continue };
                    (row.try_get(0)?, self.base.many)
                }
                (Place::Later, Some(made)) => (made.0 - NEAR.0, made.0 + NEAR.1),
                (Place::Hot | Place::Later, None) => continue,
            };
            self.read(conn, place, place.by_id(&self.base.sql), part, &mut found).await?;
        }
        if found.is_empty() {
            for place in places().filter(|place| matches!(place, Place::Hot | Place::Later)) {
                let part = if place == Place::Hot { (i64::MIN, -1) } else { WHOLE };
                self.read(conn, place, place.by_id(&self.base.sql), part, &mut found).await?;
            }
        }
        Ok(found)
    }

    async fn read(
        &self,
        conn: &mut SqliteConnection,
        place: Place,
        sql: &Sql,
        part: Part,
        found: &mut Vec<(Place, Listed)>,
    ) -> Result<(), Fault> {
        let after = if place == Place::Hot { &self.reach.hot_after } else { &self.reach.after };
        for row in self.bind(sql, after, part).fetch_all(conn).await? {
            found.push((place, listed(&row)?));
        }
        Ok(())
    }

    /// Ends this page's stretch of the hot table.
    async fn cut_hot(&mut self, conn: &mut SqliteConnection) -> Result<Option<(i64, i64)>, Fault> {
        let query = self.base.sql.find_hot_floor.query().bind(self.reach.top).bind(self.base.many);
        let row = query.fetch_one(conn).await?;
        // Rows that come while a person reads on are newer than the listing.
        self.reach.top = row.try_get(0)?;
        let below: Option<i64> = row.try_get(1)?;
        Ok(below.zip(row.try_get(2)?))
    }

    /// Reads how far back one page may search a table; `None` is to its beginning.
    async fn floor(&self, conn: &mut SqliteConnection, place: Place) -> Result<Option<i64>, Fault> {
        let Some(sql) = place.floor(&self.base.sql, self.filter) else { return Ok(None) };
        let query = sql.query().bind(self.reach.after.created).bind(self.base.many);
        let row = query.bind(self.filter.key.as_deref()).fetch_optional(conn).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    fn bind<'q>(
        &'q self,
        sql: &Sql,
        after: &'q Mark,
        part: Part,
    ) -> sqlx::query::Query<'q, Sqlite, SqliteArguments> {
        let Filter { id, key, kind, topic, status, code } = self.filter;
        let limit = i64::try_from(self.page.limit).unwrap_or(i64::MAX - 1) + 1;
        let query = sql.query().bind(after.created).bind(&after.id);
        let query = query.bind(id.map(|id| id.to_string())).bind(key.as_deref());
        let query = query.bind(kind.as_deref()).bind(topic.as_deref());
        let query = query.bind(self.page.payloads).bind(limit).bind(part.0);
        let query = query.bind(status.map(|status| status.as_str())).bind(self.now);
        query.bind(code.as_deref()).bind(part.1)
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
    for row in base.sql.behind.query().bind(json).bind(base.many).fetch_all(conn).await? {
        counts.insert(rows::lenient(&row, 0)?.into_owned(), row.try_get(1)?);
    }
    for (_, listed) in found.iter_mut().filter(holds) {
        let count = listed.event.key.as_ref().and_then(|key| counts.get(key));
        listed.behind = count.and_then(|count| u64::try_from(*count).ok()).unwrap_or(0);
    }
    Ok(())
}
