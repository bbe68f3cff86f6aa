//! What passes a watched inbox is counted and changed in nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use event::{Begun, Cause, Code, EventId, Fence, Inbox, InboxEnd, Millis, Pulse, StoreError};
use postbox_telemetry::Telemetry;

const LEASE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn each_answer_of_an_inbox_is_counted_once() {
    let telemetry = Telemetry::install();
    let down = || StoreError::Down(Cause::new(Code::StoreDown, "gone"));
    let begun = [
        Ok(Begun::Go(Fence(1))),
        Ok(Begun::Go(Fence(2))),
        Ok(Begun::Go(Fence(3))),
        Ok(Begun::Busy { until: Millis(5) }),
        Ok(Begun::Done),
        Ok(Begun::Done),
        Err(down()),
    ];
    let memory = Memory { begun: Mutex::new(begun.clone().into()) };
    let inbox = telemetry.watch_inbox("stock", Arc::new(memory));
    let id = EventId::new();
    for answer in begun {
        assert_eq!(inbox.begin("shop", id, LEASE).await, answer);
    }
    let failed = InboxEnd::Failed(Cause::new(Code::SinkRefused, "no such sku"));
    let ends = [(1, InboxEnd::Processed, true), (2, failed, true), (3, InboxEnd::Processed, false)];
    for (fence, end, changed) in ends {
        let finished = inbox.finish("shop", id, Fence(fence), end).await;
        assert_eq!(finished, Ok(changed));
    }
    let page = telemetry.metrics();
    for line in [
        r#"postbox_inbox_taken_in_total{inbox="stock",group="shop"} 1"#,
        r#"postbox_inbox_duplicates_total{inbox="stock",group="shop"} 2"#,
        r#"postbox_inbox_busy_total{inbox="stock",group="shop"} 1"#,
        r#"postbox_inbox_failed_total{inbox="stock",group="shop",code="sink-refused"} 1"#,
        r#"postbox_inbox_failed_total{inbox="stock",group="shop",code="store-down"} 1"#,
        r#"postbox_inbox_stale_total{inbox="stock",group="shop"} 1"#,
        r#"postbox_inbox_seconds_count{inbox="stock",group="shop"} 2"#,
    ] {
        assert!(page.contains(line), "{line}\nis not in\n{page}");
    }
}

/// Answers `begin` as the test says; a fence above 2 is stale to it.
struct Memory {
    begun: Mutex<VecDeque<Result<Begun, StoreError>>>,
}

#[async_trait]
impl Inbox for Memory {
    async fn begin(&self, _: &str, _: EventId, _: Duration) -> Result<Begun, StoreError> {
        self.begun.lock().unwrap().pop_front().unwrap()
    }

    async fn finish(
        &self,
        _: &str,
        _: EventId,
        fence: Fence,
        _: InboxEnd,
    ) -> Result<bool, StoreError> {
        Ok(fence <= Fence(2))
    }
}
