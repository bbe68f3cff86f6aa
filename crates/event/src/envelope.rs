//! What travels with an event: CloudEvents 1.0 attributes, the same for every broker.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::{Event, Headers, Payload};

/// What a producer's header is never called on a wire, whether the event has one of these or not.
const RESERVED: [&str; 4] = [Headers::CONTENT_TYPE, Envelope::SEQUENCE, "data", "database64"];

/// The attributes that every event has, in order.
const ALWAYS: [&str; 7] = ["specversion", "id", "source", "type", "time", "topic", "messagekey"];
/// The attributes whose value is the key.
const OF_A_KEY: [&str; 3] = ["subject", "partitionkey", "bizkey"];

/// The attributes of one event, in the names of CloudEvents and its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    event: &'a Event,
    source: &'a str,
}

impl Envelope<'_> {
    /// The attribute that says where a row stood in the line of its outbox.
    pub(crate) const SEQUENCE: &'static str = "sequence";
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
        let mut out = Vec::new();
        self.each(|name, value| out.push((name.to_owned(), value.to_owned())));
        out
    }

    /// Tells the same one by one, and copies none of it.
    pub fn each(&self, mut tell: impl FnMut(&str, &str)) {
        let event = self.event;
        let mut id = [0; 36];
        let id = &*event.id.uuid().hyphenated().encode_lower(&mut id);
        let time = event.created.to_string();
        let always = ["1.0", id, self.source, &*event.kind, &*time, &*event.topic, id];
        ALWAYS.iter().zip(always).for_each(|(name, value)| tell(name, value));
        if let Some(sequence) = event.sequence {
            tell(Envelope::SEQUENCE, &sequence.to_string());
        }
        if let Some(key) = &event.key {
            OF_A_KEY.iter().for_each(|name| tell(name, key));
        }
        let mut told: Vec<String> = Vec::new();
        for (name, value) in event.headers.folded() {
            let ours = ALWAYS.contains(&&*name) || RESERVED.contains(&&*name);
            let of_the_key = event.key.is_some() && OF_A_KEY.contains(&&*name);
            if !ours && !of_the_key && !told.contains(&name) {
                tell(&name, value);
                told.push(name);
            }
        }
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

    /// Returns the structured form (`application/cloudevents+json`), out of which the payload comes
    /// byte for byte. A JSON payload goes in letter by letter: parsing and writing it again would
    /// change large numbers and repeated names. Text that only claims to be JSON goes in as bytes,
    /// and so does JSON with space around it, which a reader of JSON would drop.
    pub fn structured(&self, base64: impl Fn(&[u8]) -> String) -> String {
        let mut object: Map<String, Value> =
            self.attributes().into_iter().map(|(name, value)| (name, json!(value))).collect();
        object.insert("datacontenttype".into(), json!(self.content_type()));
        let means_json = means_json(self.content_type());
        let (name, data) = match &self.event.payload {
            Payload::Text(text) if means_json && is_bare_json(text) => ("data", text.clone()),
            Payload::Text(text) if !means_json => ("data", json!(text).to_string()),
            payload => ("data_base64", json!(base64(payload.as_bytes())).to_string()),
        };
        let mut text = Value::Object(object).to_string();
        text.truncate(text.len() - 1);
        text + ",\"" + name + "\":" + &data + "}"
    }
}

/// Tells whether a payload of this media type is JSON: its subtype is `json`, or ends in `+json`.
pub(crate) fn means_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = media.split_once('/').map_or("", |(_, subtype)| subtype);
    subtype == "json" || subtype.ends_with("+json")
}

/// Tells whether a text is JSON and nothing around it.
fn is_bare_json(text: &str) -> bool {
    text.trim().len() == text.len() && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sequence;

    #[test]
    fn a_structured_payload_is_kept_letter_by_letter() {
        let event = Event::new("t", "T", r#"{"n":12345678901234567890123,"a":1,"a":2}"#);
        let text = Envelope::new(&event, "orders").structured(|_| unreachable!());
        assert!(text.ends_with(r#","data":{"n":12345678901234567890123,"a":1,"a":2}}"#), "{text}");
        serde_json::from_str::<Value>(&text).expect("the envelope is JSON");
    }

    #[test]
    fn plain_text_becomes_a_json_string_and_headers_never_replace_attributes() {
        let event = Event::new("t", "T", "not json").header("content-type", "text/plain");
        let event = event.header("Type", "evil").header("trace-id", "1");
        let text = Envelope::new(&event, "orders").structured(|_| unreachable!());
        let value: Value = serde_json::from_str(&text).expect("the envelope is JSON");
        assert_eq!((&value["data"], &value["type"]), (&json!("not json"), &json!("T")));
        assert_eq!(value["traceid"], json!("1"));
    }

    #[test]
    fn text_that_only_claims_to_be_json_goes_in_as_bytes() {
        for text in ["not json", "{\"n\": 1}\n", ""] {
            let event = Event::new("t", "T", text);
            let whole = Envelope::new(&event, "orders").structured(|_| "coded".to_owned());
            assert!(whole.ends_with(r#","data_base64":"coded"}"#), "{whole}");
        }
    }

    #[test]
    fn a_media_type_means_json_by_its_subtype_however_it_is_written() {
        for media in
            ["application/json", "Application/JSON; charset=utf-8", "text/json", "a/b+Json"]
        {
            assert!(means_json(media), "{media}");
        }
        for media in ["", "json", "text/plain", "application/json-seq", "application/jsonl"] {
            assert!(!means_json(media), "{media}");
        }
    }

    #[test]
    fn a_header_never_passes_for_the_sequence() {
        let find = |event: &Event| {
            let attributes = Envelope::new(event, "orders").attributes();
            let mut named = attributes.into_iter().filter(|(name, _)| name == "sequence");
            (named.next().map(|(_, value)| value), named.next())
        };
        let mut event = Event::new("t", "T", "{}").header("Sequence", "0000000000000000009");
        assert_eq!(find(&event), (None, None), "it never stood in line");
        event.sequence = Sequence::of(7);
        assert_eq!(find(&event), (Some("0000000000000000007".to_owned()), None));
    }
}
