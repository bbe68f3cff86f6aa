//! The four tables as a listing reads them.

use event::{Filter, Status};

use super::super::statements::{Sql, Statements};

/// A table that a listing reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Hot,
    Later,
    Dead,
    Sent,
}

impl Place {
    pub(super) const ALL: [Place; 4] = [Place::Hot, Place::Later, Place::Dead, Place::Sent];

    pub(super) fn may_hold(self, filter: &Filter) -> bool {
        let of =
            |statuses: &[Status]| filter.status.is_none_or(|wanted| statuses.contains(&wanted));
        match self {
            Place::Hot => filter.code.is_none() && of(&[Status::New, Status::Dispatching]),
            Place::Later => of(&[Status::New, Status::Retry, Status::Dispatching]),
            Place::Dead => of(&[Status::Dead]),
            Place::Sent => of(&[Status::Sent]),
        }
    }

    /// Returns what lists a page.
    pub(super) fn page<'a>(self, sql: &'a Statements, filter: &Filter) -> &'a Sql {
        match self {
            Place::Hot => &sql.find_hot,
            Place::Later => &sql.find_later,
            Place::Dead => &sql.find_dead,
            Place::Sent if filter.key.is_some() => &sql.find_sent_key,
            Place::Sent => &sql.find_sent,
        }
    }

    /// Returns what looks an identity up.
    pub(super) fn by_id(self, sql: &Statements) -> &Sql {
        match self {
            Place::Hot => &sql.find_hot_id,
            Place::Later => &sql.find_later_id,
            Place::Dead => &sql.find_dead_id,
            Place::Sent => &sql.find_sent_id,
        }
    }

    /// Returns what says how far back a page may search, where the index alone does not find what
    /// the filter names. The hot table has a bound of its own.
    pub(super) fn floor<'a>(self, sql: &'a Statements, filter: &Filter) -> Option<&'a Sql> {
        let Filter { id: _, key, kind, topic, status, code } = filter;
        let narrow = kind.is_some() || topic.is_some() || code.is_some();
        match self {
            Place::Hot => None,
            Place::Later => {
                let narrow = narrow || key.is_some() || status.is_some();
                narrow.then_some(&sql.find_later_floor)
            }
            Place::Dead => (narrow || key.is_some()).then_some(&sql.find_dead_floor),
            Place::Sent if key.is_some() => narrow.then_some(&sql.find_sent_key_floor),
            Place::Sent => narrow.then_some(&sql.find_sent_floor),
        }
    }
}
