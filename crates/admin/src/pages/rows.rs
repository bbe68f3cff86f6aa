//! One line of a table of events.

use event::{Listed, Millis, Status};

use crate::search::Typed;
use crate::show::{Stamp, things, tone};

/// An event in a table.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) href: String,
    pub(super) kind: String,
    pub(super) topic: String,
    pub(super) key: String,
    pub(super) status: Status,
    pub(super) tone: &'static str,
    pub(super) attempts: u32,
    pub(super) created: Stamp,
    pub(super) updated: Stamp,
    pub(super) code: Option<&'static str>,
    pub(super) detail: String,
    pub(super) behind: Option<String>,
}

impl Row {
    /// Shows an event of an outbox.
    pub(super) fn new(outbox: &str, listed: &Listed, now: Millis) -> Row {
        let cause = listed.last_error();
        Row {
            id: listed.event.id.to_string(),
            href: href(outbox, &listed.event.id.to_string()),
            kind: listed.event.kind.clone(),
            topic: listed.event.topic.clone(),
            key: listed.event.key.clone().unwrap_or_default(),
            status: listed.status,
            tone: tone(listed.status),
            attempts: listed.attempts,
            created: Stamp::new(listed.event.created, now),
            updated: Stamp::new(listed.updated, now),
            code: cause.map(|cause| cause.code.as_str()),
            detail: cause.map(|cause| cause.detail.clone()).unwrap_or_default(),
            behind: (listed.behind > 0).then(|| things(listed.behind, "event")),
        }
    }
}

/// Returns the path of an event's page.
pub(super) fn href(outbox: &str, id: &str) -> String {
    Typed { outbox: outbox.to_string(), ..Typed::default() }.href(&format!("/events/{id}"))
}

/// An outbox to choose.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) chosen: bool,
}
