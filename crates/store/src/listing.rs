//! What every listing of the tables has in common: which table holds what, and where a page ends.

use event::{Cause, Code, Cursor, EventId, Filter, Status, StoreError};

/// How many rows are searched or counted one by one where no index helps.
pub(crate) const MANY: i64 = 100_000;

/// A table that a listing reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Hot,
    Later,
    Dead,
    Sent,
}

impl Place {
    /// Every one.
    pub(crate) const ALL: [Place; 4] = [Place::Hot, Place::Later, Place::Dead, Place::Sent];

    /// Tells whether a filter may find anything in it.
    pub(crate) fn may_hold(self, filter: &Filter) -> bool {
        let of =
            |statuses: &[Status]| filter.status.is_none_or(|wanted| statuses.contains(&wanted));
        match self {
            Place::Hot => filter.code.is_none() && of(&[Status::New, Status::Dispatching]),
            Place::Later => of(&[Status::Retry, Status::Dispatching]),
            Place::Dead => of(&[Status::Dead]),
            Place::Sent => of(&[Status::Sent]),
        }
    }

    /// Names the status of a row of this table that is in flight, or is not.
    pub(crate) fn status(self, out: bool) -> Status {
        match (self, out) {
            (Place::Hot | Place::Later, true) => Status::Dispatching,
            (Place::Hot, false) => Status::New,
            (Place::Later, false) => Status::Retry,
            (Place::Dead, _) => Status::Dead,
            (Place::Sent, _) => Status::Sent,
        }
    }
}

/// Makes the place after a row.
pub(crate) fn cursor(last: &event::Event) -> Cursor {
    Cursor(format!("{}.{}", last.created.0, last.id))
}

/// Reads a place that an earlier page ended with.
pub(crate) fn read_cursor(Cursor(text): &Cursor) -> Result<(i64, String), StoreError> {
    let parts = text.split_once('.').and_then(|(created, id)| {
        Some((created.parse().ok()?, id.parse::<EventId>().ok()?.to_string()))
    });
    parts.ok_or_else(|| {
        let detail = format!("{text:?} is no place in a listing; start again without it");
        StoreError::Broken(Cause::new(Code::ConfigInvalid, detail))
    })
}
