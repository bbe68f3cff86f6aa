//! The filter in the URL: what a visitor typed, what it means, and the way back.

use event::{Cursor, EventId, Filter, Page, Status};

use crate::problem::Problem;

/// Events on a page when the visitor does not say.
pub(crate) const PAGE: usize = 50;
/// Events on a page at the most.
pub(crate) const MOST: usize = 500;

/// What a visitor typed, field by field, in the order of the URL. Empty is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The outbox.
    pub(crate) outbox: String,
    /// The identity.
    pub(crate) id: String,
    /// The business key.
    pub(crate) key: String,
    /// The event type.
    pub(crate) kind: String,
    /// The topic.
    pub(crate) topic: String,
    /// The status.
    pub(crate) status: String,
    /// The cause code of the newest trouble.
    pub(crate) code: String,
    /// How many.
    pub(crate) limit: String,
    /// Where the page begins.
    pub(crate) after: String,
}

/// What it means.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// Which events.
    pub(crate) filter: Filter,
    /// How many.
    pub(crate) limit: usize,
    /// Where the page begins.
    pub(crate) after: Option<Cursor>,
}

impl Search {
    /// Returns the page to ask a store for.
    pub(crate) fn page(&self, payloads: bool) -> Page {
        Page { limit: self.limit, after: self.after.clone(), payloads }
    }
}

/// A field that cannot be understood, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The field's name in the URL.
    pub(crate) field: &'static str,
    /// What to do.
    pub(crate) detail: String,
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Problem {
        Problem::bad(format!("{}: {}", wrong.field, wrong.detail))
    }
}

impl Typed {
    /// Reads a query string or a form's body. Names that are no field are refused: a misspelt
    /// filter would find, or requeue, everything.
    pub(crate) fn read(query: &str) -> Result<Typed, Problem> {
        let (typed, others) = Typed::read_some(query);
        match others.first() {
            None => Ok(typed),
            Some((name, _)) => Err(Problem::bad(format!("{name:?} is not a parameter here"))),
        }
    }

    /// Reads a query string and returns what is no field of a filter beside it.
    pub(crate) fn read_some(query: &str) -> (Typed, Vec<(String, String)>) {
        let mut typed = Typed::default();
        let mut others = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match typed.fields_mut().into_iter().find(|(field, _)| *field == name) {
                Some((_, slot)) => *slot = value.trim().to_string(),
                None => others.push((name.into_owned(), value.into_owned())),
            }
        }
        (typed, others)
    }

    /// Writes the query string: only what was typed, always in the same order.
    pub(crate) fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in self.fields() {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }

    /// Returns the path with the query string, if there is one.
    pub(crate) fn href(&self, path: &str) -> String {
        match self.query() {
            query if query.is_empty() => path.to_string(),
            query => format!("{path}?{query}"),
        }
    }

    /// Returns the outbox that was named.
    pub(crate) fn outbox(&self) -> Option<&str> {
        Some(self.outbox.as_str()).filter(|name| !name.is_empty())
    }

    /// Reads the meaning.
    pub(crate) fn search(&self) -> Result<Search, Wrong> {
        let text = |value: &String| Some(value.clone()).filter(|text| !text.is_empty());
        let id = match self.id.as_str() {
            "" => None,
            id => Some(id.parse::<EventId>().map_err(|_| Wrong {
                field: "id",
                detail: "an event id is a UUID, like 0192f0c1-2345-7abc-8def-0123456789ab".into(),
            })?),
        };
        let status = match self.status.as_str() {
            "" => None,
            status => {
                Some(status.parse::<Status>().map_err(|detail| Wrong { field: "status", detail })?)
            }
        };
        let limit = match self.limit.as_str() {
            "" => PAGE,
            limit => limit.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(|| {
                Wrong { field: "limit", detail: format!("take a number from 1 to {MOST}") }
            })?,
        };
        let filter = Filter {
            id,
            key: text(&self.key),
            kind: text(&self.kind),
            topic: text(&self.topic),
            status,
            code: text(&self.code),
        };
        Ok(Search { filter, limit, after: text(&self.after).map(Cursor) })
    }

    /// Tells whether anything narrows the search, the outbox and the page aside.
    pub(crate) fn narrows(&self) -> bool {
        let narrowing = [&self.id, &self.key, &self.kind, &self.topic, &self.status, &self.code];
        narrowing.into_iter().any(|value| !value.is_empty())
    }

    fn fields(&self) -> [(&'static str, &String); 9] {
        [
            ("outbox", &self.outbox),
            ("id", &self.id),
            ("key", &self.key),
            ("type", &self.kind),
            ("topic", &self.topic),
            ("status", &self.status),
            ("code", &self.code),
            ("limit", &self.limit),
            ("after", &self.after),
        ]
    }

    fn fields_mut(&mut self) -> [(&'static str, &mut String); 9] {
        [
            ("outbox", &mut self.outbox),
            ("id", &mut self.id),
            ("key", &mut self.key),
            ("type", &mut self.kind),
            ("topic", &mut self.topic),
            ("status", &mut self.status),
            ("code", &mut self.code),
            ("limit", &mut self.limit),
            ("after", &mut self.after),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_the_url_and_comes_back_in_order() {
        let query = "outbox=orders&key=a%26b+c&type=OrderPaid&topic=%E2%82%AC&status=DEAD";
        let typed = Typed::read(query).unwrap();
        assert_eq!((typed.key.as_str(), typed.topic.as_str()), ("a&b c", "€"));
        assert_eq!(typed.query(), query);
        let again = Typed::read("status=DEAD&id=&type=OrderPaid").unwrap();
        assert_eq!(again.href("/events"), "/events?type=OrderPaid&status=DEAD");
        assert_eq!(Typed::default().href("/events"), "/events");
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        assert!(Typed::read("topik=x").unwrap_err().detail.contains("topik"));
        let wrong = |query| Typed::read(query).unwrap().search().unwrap_err().field;
        assert_eq!(wrong("id=12"), "id");
        assert_eq!(wrong("status=LOST"), "status");
        assert_eq!(wrong("limit=0"), "limit");
        assert_eq!(wrong("limit=501"), "limit");
    }
}
