//! The sink `http` against a real server on loopback.

mod answers;
mod environment;
mod order;
mod server;
mod tls;
mod wire;

use std::time::Duration;

use event::{Answer, Cause, Code, Event, Refusal, Sink};

use self::server::Server;
use super::{Http, Options};

fn options(url: impl Into<String>) -> Options {
    Options { allow_private: true, timeout: Duration::from_secs(20), ..Options::new(url, "orders") }
}

fn sink(server: &Server) -> Http {
    Http::new(options(server.url())).unwrap()
}

fn event() -> Event {
    Event::new("order.paid", "OrderPaid", r#"{"total": 42}"#)
}

async fn publish_one(sink: &Http, event: Event) -> Answer {
    let mut answers = sink.publish(&[event]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// Returns what kind of answer it is, and its code.
fn kind(answer: &Answer) -> (&'static str, Option<Code>) {
    match answer {
        Ok(_) => ("receipt", None),
        Err(Refusal::Down(cause)) => ("down", Some(cause.code)),
        Err(Refusal::Retry(cause, _)) => ("retry", Some(cause.code)),
        Err(Refusal::Reject(cause)) => ("reject", Some(cause.code)),
        Err(Refusal::Unknown(cause)) => ("unknown", Some(cause.code)),
        Err(Refusal::Held) => ("held", None),
    }
}

fn cause(answer: Answer) -> Cause {
    match answer {
        Err(
            Refusal::Down(cause)
            | Refusal::Retry(cause, _)
            | Refusal::Reject(cause)
            | Refusal::Unknown(cause),
        ) => cause,
        other => panic!("{other:?} has no cause"),
    }
}
