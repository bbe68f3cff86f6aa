//! What travels with an event: CloudEvents 1.0 attributes, the same for every broker.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::{Event, Headers, Payload};

/// The attributes of one event, in the names of CloudEvents and its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    event: &'a Event,
    source: &'a str,
}

impl<'a> Envelope<'a> {
    /// Wraps an event. `source` says which outbox it came from.
    pub fn new(event: &'a Event, source: &'a str) -> Envelope<'a> {
        Envelope { event, source }
    }

    /// Returns the attributes, required ones first. Extension names are lower-case letters and
    /// digits only, as the specification wants; a producer's header whose name is not becomes one
    /// by dropping the rest, and never replaces an attribute of ours.
    pub fn attributes(&self) -> Vec<(String, String)> {
        let event = self.event;
        let mut out: Vec<(String, String)> = vec![
            ("specversion".into(), "1.0".into()),
            ("id".into(), event.id.to_string()),
            ("source".into(), self.source.to_owned()),
            ("type".into(), event.kind.clone()),
            ("time".into(), event.created.to_string()),
            ("topic".into(), event.topic.clone()),
            ("messagekey".into(), event.id.to_string()),
        ];
        if let Some(key) = &event.key {
            out.push(("subject".into(), key.clone()));
            out.push(("partitionkey".into(), key.clone()));
            out.push(("bizkey".into(), key.clone()));
        }
        for (name, value) in event.headers.folded() {
            let taken = [Headers::CONTENT_TYPE, "data", "database64"].contains(&name.as_str());
            if !taken && out.iter().all(|(other, _)| *other != name) {
                out.push((name, value.to_owned()));
            }
        }
        out
    }

    /// Returns the media type of the payload: the producer's `content-type` header, however it is
    /// written, else JSON for text and bytes for bytes.
    pub fn content_type(&self) -> &str {
        let mut headers = self.event.headers.folded();
        let given = headers.find(|(name, _)| name == Headers::CONTENT_TYPE);
        given.map(|(_, value)| value).unwrap_or(match self.event.payload {
            Payload::Text(_) => "application/json",
            Payload::Bytes(_) => "application/octet-stream",
        })
    }

    /// Returns the structured form (`application/cloudevents+json`). A JSON payload goes in letter
    /// by letter: parsing and writing it again would change large numbers and repeated names.
    pub fn structured(&self, base64: impl Fn(&[u8]) -> String) -> String {
        let mut object: Map<String, Value> =
            self.attributes().into_iter().map(|(name, value)| (name, json!(value))).collect();
        object.insert("datacontenttype".into(), json!(self.content_type()));
        let media = self.content_type().split(';').next().unwrap_or_default().trim();
        let is_json = media == "application/json" || media.ends_with("+json");
        let (name, data) = match &self.event.payload {
            Payload::Text(text) if is_json && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                ("data", text.clone())
            }
            Payload::Text(text) => ("data", json!(text).to_string()),
            Payload::Bytes(bytes) => ("data_base64", json!(base64(bytes)).to_string()),
        };
        let mut text = Value::Object(object).to_string();
        text.truncate(text.len() - 1);
        text + ",\"" + name + "\":" + &data + "}"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structured_payload_is_kept_letter_by_letter() {
        let event = Event::new("t", "T", r#"{"n":12345678901234567890123,"a":1,"a":2}"#);
        let text = Envelope::new(&event, "orders").structured(|_| unreachable!());
        assert!(text.ends_with(r#","data":{"n":12345678901234567890123,"a":1,"a":2}}"#), "{text}");
        serde_json::from_str::<Value>(&text).expect("the envelope is JSON");
    }

    #[test]
    fn text_that_is_no_json_becomes_a_json_string_and_headers_never_replace_attributes() {
        let event = Event::new("t", "T", "not json").header("Type", "evil").header("trace-id", "1");
        let text = Envelope::new(&event, "orders").structured(|_| unreachable!());
        let value: Value = serde_json::from_str(&text).expect("the envelope is JSON");
        assert_eq!((&value["data"], &value["type"]), (&json!("not json"), &json!("T")));
        assert_eq!(value["traceid"], json!("1"));
    }
}
