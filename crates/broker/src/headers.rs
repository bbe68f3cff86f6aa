//! What a producer's headers become: the same rule for every sink.
//!
//! CloudEvents knows attribute names of lower-case letters and digits only, so names are folded to
//! that. Two headers that fold to one name are one field with two meanings, which neither
//! CloudEvents nor RFC 9110 (§5.3) allows to be made: nothing is lost unseen, the event is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use event::{Cause, Code, Event};

/// The attribute that says what the payload is.
const CONTENT_TYPE: &str = "datacontenttype";

/// Returns the event with its content type under the name that the envelope knows, however the
/// producer wrote it. An event with two headers of one name is a `bad-event`.
pub(crate) fn tidy(event: &Event) -> Result<Cow<'_, Event>, Cause> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for given in event.headers.0.keys() {
        let name = fold(given);
        if name.is_empty() {
            continue;
        }
        if let Some(other) = seen.insert(name.clone(), given) {
            let detail = format!("headers {other:?} and {given:?} are both {name:?}; keep one");
            return Err(Cause::new(Code::BadEvent, detail));
        }
    }
    match seen.get(CONTENT_TYPE) {
        Some(given) if *given != CONTENT_TYPE => {
            let mut event = event.clone();
            let value = event.headers.0.remove(*given).unwrap_or_default();
            event.headers.0.insert(CONTENT_TYPE.to_owned(), value);
            Ok(Cow::Owned(event))
        }
        _ => Ok(Cow::Borrowed(event)),
    }
}

fn fold(name: &str) -> String {
    let name: String =
        name.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    if name == "contenttype" { CONTENT_TYPE.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(names: &[&str]) -> Event {
        let event = Event::new("t", "T", "{}");
        names.iter().fold(event, |event, name| event.header(*name, "text/plain"))
    }

    #[test]
    fn the_content_type_is_found_however_it_is_written() {
        for name in ["content-type", "Content-Type", "CONTENT_TYPE", "dataContentType"] {
            let event = event(&[name, "other"]);
            let tidy = tidy(&event).unwrap();
            let names: Vec<&str> = tidy.headers.0.keys().map(String::as_str).collect();
            assert_eq!(names, ["datacontenttype", "other"], "{name}");
        }
    }

    #[test]
    fn two_headers_of_one_name_are_refused_and_both_are_named() {
        for names in [["trace-id", "TraceId"], ["Content-Type", "datacontenttype"]] {
            let cause = tidy(&event(&names)).unwrap_err();
            assert_eq!(cause.code, Code::BadEvent);
            assert!(names.iter().all(|name| cause.detail.contains(name)), "{cause}");
        }
        assert!(
            tidy(&event(&["ключ", "имя", "a", "b"])).is_ok(),
            "what has no name does not clash"
        );
    }
}
