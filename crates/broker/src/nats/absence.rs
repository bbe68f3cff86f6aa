//! Why nobody takes a subject: no stream has it, or the one that has it is away. A publish hears
//! the same of both.
//!
//! It is missing only if JetStream says so. Whatever cannot be known counts as away, because that
//! spends no attempts; only where this user may not ask must a receipt have shown the stream.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{RequestError, RequestErrorKind};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::link::Link;
use crate::seen::Seen;

/// How long an answer stands for the next question. Many events of a subject ask at once.
const FRESH: Duration = Duration::from_secs(1);
/// How long JetStream may take.
const PATIENCE: Duration = Duration::from_secs(2);

const API: &str = "$JS.API";
const NAMES: &str = "STREAM.NAMES";
const INFO: &str = "STREAM.INFO";
/// JetStream is off, for the server or for the account.
pub(super) const OFF: [u64; 3] = [10035, 10039, 10076];
const NO_STREAM: u64 = 10059;

/// Why nobody takes a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// This stream has it, and none of its servers answers.
    Away(String),
    /// Nobody tells, and this is why.
    Dark(String),
    /// It had receipts, and this user may not ask for more.
    Lost,
    /// JetStream itself is away, or not for this account.
    Off,
    /// No stream has it.
    Missing,
}

/// What was kept, and what was found out a moment ago.
#[derive(Debug, Default)]
pub(super) struct Witness {
    kept: Seen,
    known: Mutex<HashMap<String, (Instant, Absence)>>,
}

impl Witness {
    /// A stream took an event of this subject.
    pub(super) fn kept(&self, subject: &str) {
        self.kept.note(subject);
    }

    /// Says why nobody takes a subject.
    pub(super) async fn absence(
        &self,
        link: &Link,
        context: &Context,
        subject: &str,
        until: Instant,
    ) -> Absence {
        let found = timeout_at(until, async {
            let mut known = self.known.lock().await;
            known.retain(|_, (at, _)| at.elapsed() < FRESH);
            if let Some((_, absence)) = known.get(subject) {
                return absence.clone();
            }
            let absence = ask(link, context, subject).await;
            let absence = absence.unwrap_or_else(|| self.untold(subject));
            known.insert(subject.to_owned(), (Instant::now(), absence.clone()));
            absence
        });
        found.await.unwrap_or_else(|_| late())
    }

    fn untold(&self, subject: &str) -> Absence {
        match self.kept.all().contains(subject) {
            true => Absence::Lost,
            false => Absence::Missing,
        }
    }
}

/// Asks JetStream which stream has a subject; `None` if this user may not.
async fn ask(link: &Link, context: &Context, subject: &str) -> Option<Absence> {
    let (asked, began) = (format!("{API}.{NAMES}"), Instant::now());
    tokio::select! {
        absence = stream_of(context, subject) => Some(absence),
        () = link.denied(&asked, began) => None,
    }
}

/// Asks JetStream which stream has a subject.
pub(super) async fn stream_of(context: &Context, subject: &str) -> Absence {
    let asked = json!({ "subject": subject });
    match timeout(PATIENCE, context.request(NAMES, &asked)).await {
        Ok(told) => read(told),
        Err(_) => late(),
    }
}

/// Tells whether JetStream knows a stream, whether or not it is away.
pub(super) async fn is_known(context: &Context, stream: &str) -> bool {
    let (asked, nothing) = (format!("{INFO}.{stream}"), json!({}));
    let told = timeout(PATIENCE, context.request(asked, &nothing)).await;
    let told: Option<Value> = told.ok().and_then(Result::ok);
    told.is_none_or(|told| told["error"]["err_code"] != NO_STREAM)
}

fn read(told: Result<Value, RequestError>) -> Absence {
    let told = match told {
        Ok(told) => told,
        Err(error) if error.kind() == RequestErrorKind::NoResponders => return Absence::Off,
        Err(error) => return Absence::Dark(error.to_string()),
    };
    let error = &told["error"];
    if error["err_code"].as_u64().is_some_and(|code| OFF.contains(&code)) {
        return Absence::Off;
    }
    match (told["streams"][0].as_str(), told["total"].as_u64()) {
        (Some(stream), _) => Absence::Away(stream.to_owned()),
        (None, Some(0)) => Absence::Missing,
        (None, _) => Absence::Dark(error["description"].as_str().unwrap_or("nobody").to_owned()),
    }
}

fn late() -> Absence {
    Absence::Dark("no answer in time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_missing_only_if_jetstream_says_so() {
        let error = |code: u64| json!({ "error": { "err_code": code, "description": "so" } });
        let cases = [
            (json!({ "total": 1, "streams": ["ORDERS"] }), Absence::Away("ORDERS".to_owned())),
            (json!({ "total": 0, "streams": null }), Absence::Missing),
            (json!({ "total": 0, "streams": [] }), Absence::Missing),
            (error(10039), Absence::Off),
            (error(10076), Absence::Off),
            (error(10008), Absence::Dark("so".to_owned())),
            (json!({}), Absence::Dark("nobody".to_owned())),
        ];
        for (told, absence) in cases {
            assert_eq!(read(Ok(told.clone())), absence, "{told}");
        }
        let failed = |kind| read(Err(RequestError::new(kind)));
        assert_eq!(failed(RequestErrorKind::NoResponders), Absence::Off);
        assert!(matches!(failed(RequestErrorKind::TimedOut), Absence::Dark(_)));
    }

    #[test]
    fn where_nobody_may_ask_a_receipt_tells_what_is_lost_from_what_is_missing() {
        let witness = Witness::default();
        witness.kept("order.paid");
        assert_eq!(witness.untold("order.paid"), Absence::Lost);
        assert_eq!(witness.untold("order.pade"), Absence::Missing);
    }
}
