//! Searching all four tables for a page of events, newest first.
//!
//! A page ends at a moment and an identity, so the next one costs no more than the first. Where no
//! index finds what is asked for, a page looks at a bounded part and says how far it came.

use std::collections::HashMap;

use async_trait::async_trait;
use event::{EventId, Filter, Listed, Listing, Millis, Page, StoreError};

use super::Place;
use super::reach::{Cut, Mark, Reach, made_at};

/// How much older, and how much younger, a row may be than the identity that its producer made
/// for it, to be looked up at once.
const NEAR: (i64, i64) = (2_000, 60_000);

/// Which part of a table a statement reads: two bounds of its own kind.
pub(crate) type Part = (i64, i64);

const WHOLE: Part = (i64::MIN, i64::MAX);

/// Which hot rows one page searches: those numbered up to `top`, and not what is below.
pub(crate) struct Stretch {
    pub(crate) top: i64,
    /// The newest row that is left out, and when it was created.
    pub(crate) below: Option<(i64, i64)>,
}

/// What every statement of one search is given.
pub(crate) struct Asked<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) page: &'a Page,
    pub(crate) now: i64,
    reach: Reach,
}

impl Asked<'_> {
    /// Returns after which row of a table the page begins.
    pub(crate) fn after(&self, place: Place) -> &Mark {
        if place == Place::Hot { &self.reach.hot_after } else { &self.reach.after }
    }

    /// Returns how many rows a statement reads: one more than the page has.
    pub(crate) fn limit(&self) -> i64 {
        i64::try_from(self.page.limit).unwrap_or(i64::MAX - 1) + 1
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let filter = self.filter.clone();
        Place::ALL.into_iter().filter(move |place| place.may_hold(&filter))
    }
}

/// The tables of one store at one moment.
#[async_trait]
pub(crate) trait Tables: Send {
    type Fault: From<StoreError> + Send;

    /// Reads the clock that rules.
    async fn now(&mut self) -> Result<i64, Self::Fault>;
    /// Reads a part of one table: what a page lists, or one identity.
    async fn read(
        &mut self,
        asked: &Asked<'_>,
        place: Place,
        part: Part,
    ) -> Result<Vec<Listed>, Self::Fault>;
    /// Reads which hot rows one page searches, from a number down.
    async fn stretch(&mut self, top: i64) -> Result<Stretch, Self::Fault>;
    /// Reads how far back from a moment one page may search a table; `None` is to its beginning.
    async fn floor(
        &mut self,
        place: Place,
        created: i64,
        key: Option<&str>,
    ) -> Result<Option<i64>, Self::Fault>;
    /// Finds the hot rows that may have been made at a moment or later: those in this part.
    async fn near(&mut self, made: i64) -> Result<Option<Part>, Self::Fault>;
    /// Counts who waits behind keys.
    async fn behind(&mut self, keys: Vec<String>) -> Result<HashMap<String, i64>, Self::Fault>;
}

/// Lists a page.
pub(crate) async fn find<T: Tables>(
    tables: &mut T,
    filter: &Filter,
    page: &Page,
) -> Result<Listing, T::Fault> {
    let now = tables.now().await?;
    let reach = page.after.as_ref().map_or_else(|| Ok(Reach::start()), Reach::read)?;
    let mut asked = Asked { filter, page, reach, now };
    let (mut found, cut) = match filter.id {
        Some(id) => (look_up(tables, &asked, id).await?, Cut::default()),
        None => gather(tables, &mut asked).await?,
    };
    found.sort_by_key(|(_, listed)| std::cmp::Reverse((listed.event.created, listed.event.id)));
    let searched_to = cut.searched_to();
    if let Some(floor) = searched_to {
        let whole = |place: Place| place == Place::Hot && cut.ends_stretch();
        found.retain(|(place, listed)| whole(*place) || listed.event.created.0 >= floor);
    }
    let full = found.len() > page.limit;
    found.truncate(page.limit);
    behind(tables, &mut found).await?;
    let events: Vec<Listed> = found.into_iter().map(|(_, listed)| listed).collect();
    let next = match (events.last(), searched_to) {
        (Some(last), _) if full => Some(asked.reach.after_page(last, &cut)),
        (_, Some(to)) if !full => Some(asked.reach.after_search(to, &cut)),
        _ => None,
    };
    let next = next.map(|reach| reach.cursor());
    Ok(Listing { events, next, searched_to: searched_to.filter(|_| !full).map(Millis) })
}

/// Reads every table that may hold what is asked for, as far as one page may search.
async fn gather<T: Tables>(
    tables: &mut T,
    asked: &mut Asked<'_>,
) -> Result<(Vec<(Place, Listed)>, Cut), T::Fault> {
    let (mut found, mut cut) = (Vec::new(), Cut::default());
    for place in asked.places() {
        let part = if place == Place::Hot {
            let stretch = tables.stretch(asked.reach.top).await?;
            // Rows that come while a person reads on are newer than the listing.
            asked.reach.top = stretch.top;
            cut.hot = stretch.below;
            (cut.hot.map_or(i64::MIN, |(low, _)| low), stretch.top)
        } else if place.has_floor(asked.filter) {
            let created = asked.reach.after.created;
            let floor = tables.floor(place, created, asked.filter.key.as_deref()).await?;
            cut.floor = cut.floor.max(floor);
            (floor.unwrap_or(i64::MIN), i64::MAX)
        } else {
            WHOLE
        };
        let rows = tables.read(asked, place, part).await?;
        found.extend(rows.into_iter().map(|listed| (place, listed)));
    }
    Ok((found, cut))
}

/// Looks an identity up: where its own moment says, and only if it is nowhere, everywhere.
async fn look_up<T: Tables>(
    tables: &mut T,
    asked: &Asked<'_>,
    id: EventId,
) -> Result<Vec<(Place, Listed)>, T::Fault> {
    let mut found = Vec::new();
    for place in asked.places() {
        let part = match (place, made_at(id)) {
            (Place::Dead | Place::Sent, _) => WHOLE,
            (Place::Hot, Some(made)) => match tables.near(made.0 - NEAR.0).await? {
                Some(part) => part,
                None => continue,
            },
            (Place::Later, Some(made)) => (made.0 - NEAR.0, made.0 + NEAR.1),
            (Place::Hot | Place::Later, None) => continue,
        };
        let rows = tables.read(asked, place, part).await?;
        found.extend(rows.into_iter().map(|listed| (place, listed)));
    }
    if found.is_empty() {
        for place in asked.places().filter(|place| matches!(place, Place::Hot | Place::Later)) {
            let rows = tables.read(asked, place, WHOLE).await?;
            found.extend(rows.into_iter().map(|listed| (place, listed)));
        }
    }
    Ok(found)
}

/// Counts who waits behind the rows that hold their keys.
async fn behind<T: Tables>(tables: &mut T, found: &mut [(Place, Listed)]) -> Result<(), T::Fault> {
    let holds = |(place, listed): &&mut (Place, Listed)| {
        *place == Place::Later && listed.attempts > 0 && listed.event.key.is_some()
    };
    let keys: Vec<String> =
        found.iter_mut().filter(holds).filter_map(|(_, listed)| listed.event.key.clone()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let counts = tables.behind(keys).await?;
    for (_, listed) in found.iter_mut().filter(holds) {
        let count = listed.event.key.as_ref().and_then(|key| counts.get(key));
        listed.behind = count.and_then(|count| u64::try_from(*count).ok()).unwrap_or(0);
    }
    Ok(())
}
