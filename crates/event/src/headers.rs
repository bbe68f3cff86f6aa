//! Named values beside the payload, and what they are called on every wire.
//!
//! CloudEvents knows attribute names of lower-case letters and digits only, so names are folded to
//! that. Two headers that fold to one name are one field with two meanings, which neither
//! CloudEvents nor RFC 9110 (§5.3) allows: nothing is lost unseen, the event is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// Named values beside the payload: `schema_version`, `traceparent`, whatever the producer adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
    /// The folded name of the header that says what the payload is.
    pub(crate) const CONTENT_TYPE: &str = "datacontenttype";

    /// Reads the JSON object of a row. Numbers and booleans become their text, null is left out,
    /// and anything nested stays JSON text, so no producer's header stops its event.
    pub fn from_json(json: &str) -> Result<Headers, Invalid> {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(json).map_err(|error| Invalid::Headers(error.to_string()))?;
        let text = |(name, value): (String, serde_json::Value)| match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some((name, text)),
            other => Some((name, other.to_string())),
        };
        Ok(Headers(object.into_iter().filter_map(text).collect()))
    }

    /// Writes the JSON object of a row.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.0).expect("a map of strings is always JSON")
    }

    /// Returns the size of that object in bytes.
    pub(crate) fn size(&self) -> usize {
        const NONE: usize = "{}".len();
        if self.0.is_empty() { NONE } else { self.to_json().len() }
    }

    /// Returns one header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the headers under the names that they have on a wire. One whose name folds to
    /// nothing has none, and does not travel.
    pub(crate) fn folded(&self) -> impl Iterator<Item = (String, &str)> {
        let folded = self.0.iter().map(|(name, value)| (fold(name), value.as_str()));
        folded.filter(|(name, _)| !name.is_empty())
    }

    /// Refuses two headers that fold to one name.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.0.len() < 2 {
            return Ok(());
        }
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        for given in self.0.keys() {
            let name = fold(given);
            if name.is_empty() {
                continue;
            }
            if let Some(other) = seen.insert(name.clone(), given) {
                let (one, other) = (other.to_owned(), given.clone());
                return Err(Invalid::HeaderTwice { one, other, name });
            }
        }
        Ok(())
    }
}

fn fold(name: &str) -> String {
    let name: String =
        name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    if name == "contenttype" { Headers::CONTENT_TYPE.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use crate::{Envelope, Event};

    fn event(names: &[&str]) -> Event {
        let event = Event::new("t", "T", "{}");
        names.iter().fold(event, |event, name| event.header(*name, "text/plain"))
    }

    #[test]
    fn the_content_type_is_found_however_it_is_written() {
        for name in ["content-type", "Content-Type", "CONTENT_TYPE", "dataContentType"] {
            let event = event(&[name, "other"]);
            let envelope = Envelope::new(&event, "orders");
            assert_eq!(envelope.content_type(), "text/plain", "{name}");
            let (last, _) = envelope.attributes().pop().expect("an event has attributes");
            assert_eq!(last, "other", "the content type is no extension");
        }
    }

    #[test]
    fn two_headers_of_one_name_are_refused_and_both_are_named() {
        for names in [["TraceId", "trace-id"], ["Content-Type", "datacontenttype"]] {
            let invalid = event(&names).headers.check().unwrap_err().to_string();
            assert!(names.iter().all(|name| invalid.contains(name)), "{invalid}");
        }
        let nameless = event(&["ключ", "имя", "a", "b"]);
        assert!(nameless.headers.check().is_ok(), "what has no name does not clash");
    }
}
