//! An event of a bare loop, with its attributes written out beforehand. What the client library
//! takes is made of it in the loop, as by anybody who publishes.

use bytes::Bytes;
use event::{Envelope, Event};

use super::backlog::SOURCE;

/// One event, and the attributes that travel with it.
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) payload: Bytes,
    /// The attributes of CloudEvents, and the media type.
    pub(super) attributes: Vec<(String, String)>,
    pub(super) media: &'static str,
}

impl Letter {
    /// The type of every event.
    pub(super) const KIND: &str = "OrderPaid";

    pub(super) fn new(topic: &str, key: String, payload: Bytes) -> Letter {
        let event = Event::new(topic, Letter::KIND, "{}").key(&*key);
        let attributes = Envelope::new(&event, SOURCE).attributes();
        Letter { id: event.id.to_string(), key, payload, attributes, media: "application/json" }
    }
}
