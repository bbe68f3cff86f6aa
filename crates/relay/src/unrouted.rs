//! The lane of topics that no route takes: they go dead with a cause, and never wait unseen.

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Refusal, Sink};

/// A sink that rejects everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unrouted;

#[async_trait]
impl Sink for Unrouted {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let reject = |event: &Event| {
            let detail = format!("no route takes topic {:?}", event.topic);
            Err(Refusal::Reject(Cause::new(Code::Unrouted, detail)))
        };
        events.iter().map(reject).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        Ok(())
    }
}
