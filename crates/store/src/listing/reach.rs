//! How far a listing has come: what a cursor says, and where the next page goes on.
//!
//! Three tables are read in the order of time, by index. The hot table has no such index: it is
//! searched in stretches of its numbers, and a row counts as listed by its stretch first.

use event::{Cause, Code, Cursor, EventId, Listed, Millis, StoreError};

/// A place in the order of time, newest first; with an empty identity, after all of a moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) created: i64,
    pub(crate) id: String,
}

impl Mark {
    fn start() -> Mark {
        Mark { created: i64::MAX, id: String::new() }
    }

    pub(crate) fn below(created: i64) -> Mark {
        Mark { created, id: String::new() }
    }

    fn of(listed: &Listed) -> Mark {
        Mark { created: listed.event.created.0, id: listed.event.id.to_string() }
    }
}

/// Where a search of all tables has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// In the tables that are read by time.
    pub(crate) after: Mark,
    /// The number of the newest hot row of this stretch.
    pub(crate) top: i64,
    /// Within the stretch.
    pub(crate) hot_after: Mark,
}

/// What one page does not look at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    /// Hot rows up to this number, the newest of which was created then.
    pub(crate) hot: Option<(i64, i64)>,
    /// Rows of the other tables that are older than this.
    pub(crate) floor: Option<i64>,
}

impl Cut {
    /// Returns back to when everything was looked at, if not to the beginning.
    pub(crate) fn searched_to(&self) -> Option<i64> {
        self.hot.map(|(_, created)| created).max(self.floor)
    }

    /// Tells whether the stretch of hot rows is what ends the page's search. Then all of it
    /// belongs to this page, even rows whose producer dated them back.
    pub(crate) fn ends_stretch(&self) -> bool {
        self.hot.is_some_and(|(_, created)| self.floor.is_none_or(|floor| floor <= created))
    }
}

impl Reach {
    pub(crate) fn start() -> Reach {
        Reach { after: Mark::start(), top: i64::MAX, hot_after: Mark::start() }
    }

    /// Goes on after the last row of a full page.
    pub(crate) fn after_page(self, last: &Listed, cut: &Cut) -> Reach {
        let last = Mark::of(last);
        let floor = cut.searched_to().map(Mark::below);
        let after = floor.map_or_else(|| last.clone(), |floor| last.clone().max(floor));
        Reach { after: self.after.min(after), top: self.top, hot_after: self.hot_after.min(last) }
    }

    /// Goes on where the search of this page ended.
    pub(crate) fn after_search(self, to: i64, cut: &Cut) -> Reach {
        let floor = Mark::below(to);
        let after = self.after.min(floor.clone());
        match cut.hot {
            Some((top, _)) if cut.ends_stretch() => Reach { after, top, hot_after: Mark::start() },
            _ => Reach { after, top: self.top, hot_after: self.hot_after.min(floor) },
        }
    }

    pub(crate) fn cursor(&self) -> Cursor {
        let Reach { after, top, hot_after } = self;
        let mut text = format!("{}.{}.{top}", after.created, after.id);
        if hot_after != after {
            text += &format!(".{}.{}", hot_after.created, hot_after.id);
        }
        Cursor(text)
    }

    pub(crate) fn read(Cursor(text): &Cursor) -> Result<Reach, StoreError> {
        let parts: Vec<&str> = text.split('.').collect();
        let reach = match parts[..] {
            [created, id, top] => mark(created, id).zip(top.parse().ok()).map(|(after, top)| {
                let hot_after = after.clone();
                Reach { after, top, hot_after }
            }),
            [created, id, top, hot_created, hot_id] => {
                let marks = mark(created, id).zip(mark(hot_created, hot_id));
                let reach = |((after, hot_after), top)| Reach { after, top, hot_after };
                marks.zip(top.parse().ok()).map(reach)
            }
            _ => None,
        };
        reach.ok_or_else(|| {
            let detail = format!("{text:?} is no place in a listing; start again without it");
            StoreError::Broken(Cause::new(Code::ConfigInvalid, detail))
        })
    }
}

fn mark(created: &str, id: &str) -> Option<Mark> {
    let id = if id.is_empty() { String::new() } else { id.parse::<EventId>().ok()?.to_string() };
    Some(Mark { created: created.parse().ok()?, id })
}

/// Returns the moment that an identity of the seventh version was made at.
pub(crate) fn made_at(id: EventId) -> Option<Millis> {
    let uuid = id.uuid();
    let millis = i64::try_from(uuid.as_u128() >> 80).ok()?;
    (uuid.get_version_num() == 7).then_some(Millis(millis))
}

/// How far an identity's own moment may be from its row's, for the row to be found by it.
const DRIFT: u64 = 1_000;

/// Tells whether an identity may not tell when its row was created.
pub(crate) fn is_stray(id: EventId, created: Millis) -> bool {
    made_at(id).is_none_or(|made| made.0.abs_diff(created.0) > DRIFT)
}
