//! The four tables as a listing reads them.

use event::{Filter, Status};

/// A table that a listing reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Hot,
    Later,
    Dead,
    Sent,
}

impl Place {
    pub(crate) const ALL: [Place; 4] = [Place::Hot, Place::Later, Place::Dead, Place::Sent];

    /// Tells whether a filter may find anything in it.
    pub(crate) fn may_hold(self, filter: &Filter) -> bool {
        let of =
            |statuses: &[Status]| filter.status.is_none_or(|wanted| statuses.contains(&wanted));
        match self {
            Place::Hot => filter.code.is_none() && of(&[Status::New, Status::Dispatching]),
            Place::Later => of(&[Status::New, Status::Retry, Status::Dispatching]),
            Place::Dead => of(&[Status::Dead]),
            Place::Sent => of(&[Status::Sent]),
        }
    }

    /// Tells whether the index alone does not find what the filter names, so that a page must not
    /// search to the beginning. The hot table has a bound of its own.
    pub(crate) fn has_floor(self, filter: &Filter) -> bool {
        let Filter { id: _, key, kind, topic, status, code } = filter;
        let narrow = kind.is_some() || topic.is_some() || code.is_some();
        match self {
            Place::Hot => false,
            Place::Later => narrow || key.is_some() || status.is_some(),
            Place::Dead => narrow || key.is_some(),
            Place::Sent => narrow,
        }
    }
}
