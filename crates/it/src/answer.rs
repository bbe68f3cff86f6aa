//! What a sink answers for one event, in words that a test can compare.

use event::{Answer, Cause, Event, Refusal, Sink};

/// Makes an event of a topic.
pub fn paid(topic: &str) -> Event {
    Event::new(topic, "Paid", r#"{"total": 42}"#).key("7")
}

/// Publishes one event.
pub async fn publish(sink: &dyn Sink, event: &Event) -> Answer {
    sink.publish(std::slice::from_ref(event)).await.remove(0)
}

/// Returns the kind of a refusal, and its cause.
pub fn cause(answer: Answer) -> (&'static str, Cause) {
    match answer {
        Err(Refusal::Down(cause)) => ("down", cause),
        Err(Refusal::Retry(cause, _)) => ("retry", cause),
        Err(Refusal::Reject(cause)) => ("reject", cause),
        Err(Refusal::Unknown(cause)) => ("unknown", cause),
        other => panic!("{other:?} has no cause"),
    }
}
