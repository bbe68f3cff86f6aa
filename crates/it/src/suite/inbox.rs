//! The consumers' memory: each group takes an event in once.

use std::sync::Arc;
use std::time::Duration;

use event::{Begun, Cause, Code, EventId, Fence, Inbox, InboxEnd};

use crate::ground::Ground;
use crate::suite::act::{LEASE, MILLI, cause};

async fn open(ground: &dyn Ground) -> Arc<dyn Inbox> {
    ground.relay().await.inbox()
}

async fn begin(inbox: &Arc<dyn Inbox>, group: &str, id: EventId) -> Begun {
    inbox.begin(group, id, LEASE).await.expect("the inbox answers")
}

async fn go(inbox: &Arc<dyn Inbox>, group: &str, id: EventId) -> Fence {
    match begin(inbox, group, id).await {
        Begun::Go(fence) => fence,
        other => panic!("{other:?} for a free event"),
    }
}

async fn finish(inbox: &Arc<dyn Inbox>, group: &str, id: EventId, fence: Fence) -> bool {
    end(inbox, group, id, fence, InboxEnd::Processed).await
}

async fn end(
    inbox: &Arc<dyn Inbox>,
    group: &str,
    id: EventId,
    fence: Fence,
    end: InboxEnd,
) -> bool {
    inbox.finish(group, id, fence, end).await.expect("the inbox answers")
}

/// Whoever gets it first works, everyone after that is told that it is done, for good.
pub async fn an_event_is_begun_once_and_done_once_processed(ground: &dyn Ground) {
    let (inbox, id) = (open(ground).await, EventId::new());
    let fence = go(&inbox, "stock", id).await;
    assert!(finish(&inbox, "stock", id, fence).await);
    for _ in 0..3 {
        assert_eq!(begin(&inbox, "stock", id).await, Begun::Done);
        assert!(!finish(&inbox, "stock", id, fence).await, "it was finished before");
        ground.clock().advance(2 * LEASE);
    }
    assert_eq!(begin(&open(ground).await, "stock", id).await, Begun::Done);
}

/// A second holder may never go on; it is told until when to wait.
pub async fn a_second_holder_is_told_to_wait(ground: &dyn Ground) {
    let (one, other, id) = (open(ground).await, open(ground).await, EventId::new());
    go(&one, "stock", id).await;
    let until = ground.clock().now() + LEASE;
    assert_eq!(begin(&other, "stock", id).await, Begun::Busy { until });
    ground.clock().advance(LEASE - MILLI);
    assert_eq!(begin(&other, "stock", id).await, Begun::Busy { until });
    assert_eq!(begin(&one, "stock", id).await, Begun::Busy { until });
}

/// However often one event arrives at once, one works.
pub async fn of_many_at_once_one_works(ground: &dyn Ground) {
    let id = EventId::new();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let inbox = open(ground).await;
        asking.spawn(async move { begin(&inbox, "stock", id).await });
    }
    let begun = asking.join_all().await;
    let working = begun.iter().filter(|begun| matches!(begun, Begun::Go(_))).count();
    assert_eq!(working, 1, "{begun:?}");
}

/// A holder that fell silent is followed by another, with a higher fence.
pub async fn another_takes_over_after_the_lease(ground: &dyn Ground) {
    let (one, other, id) = (open(ground).await, open(ground).await, EventId::new());
    let old = go(&one, "stock", id).await;
    ground.clock().advance(LEASE);
    let new = go(&other, "stock", id).await;
    assert!(new > old);
    assert!(finish(&other, "stock", id, new).await);
    assert_eq!(begin(&one, "stock", id).await, Begun::Done);
}

/// Who comes back late can neither finish the event nor set its new holder back.
pub async fn a_late_finish_changes_nothing(ground: &dyn Ground) {
    let (one, other, id) = (open(ground).await, open(ground).await, EventId::new());
    let old = go(&one, "stock", id).await;
    ground.clock().advance(LEASE);
    let new = go(&other, "stock", id).await;
    assert!(!finish(&one, "stock", id, old).await);
    assert!(!end(&one, "stock", id, old, InboxEnd::Failed(cause())).await);
    let until = ground.clock().now() + LEASE;
    assert_eq!(begin(&one, "stock", id).await, Begun::Busy { until });
    assert!(finish(&other, "stock", id, new).await);
    assert!(!end(&one, "stock", id, old, InboxEnd::Failed(cause())).await);
    assert_eq!(begin(&one, "stock", id).await, Begun::Done);
    let stranger = EventId::new();
    assert!(!finish(&one, "stock", stranger, new).await, "it was never begun");
}

/// A failure frees the event at once, for whoever asks next. Where the memory is a table, that
/// counts how often somebody worked on it, and tells what went wrong at last.
pub async fn a_failure_may_be_tried_again(ground: &dyn Ground) {
    let (one, id) = (open(ground).await, EventId::new());
    let told = async |wanted: String| {
        let told = ground.remembered("stock", id).await;
        assert!(told.is_none() || told == Some(wanted.clone()), "{told:?}, and not {wanted}");
    };
    let mut last = Fence::default();
    for attempt in 1..=3 {
        let fence = go(&one, "stock", id).await;
        assert!(fence > last);
        let before = if attempt == 1 { "-".to_owned() } else { went_wrong(attempt - 1) };
        told(format!("PROCESSING {attempt} {before}")).await;
        let failed = InboxEnd::Failed(Cause::new(Code::SinkRefused, format!("at {attempt}")));
        assert!(end(&one, "stock", id, fence, failed).await);
        told(format!("FAILED {attempt} {}", went_wrong(attempt))).await;
        assert!(!finish(&one, "stock", id, fence).await, "a failure ended this work");
        last = fence;
    }
    let fence = go(&one, "stock", id).await;
    assert!(finish(&one, "stock", id, fence).await);
    told("PROCESSED 4 -".to_owned()).await;
}

fn went_wrong(attempt: usize) -> String {
    Cause::new(Code::SinkRefused, format!("at {attempt}")).to_string()
}

/// What one group took in, another has still to take in.
pub async fn groups_remember_apart(ground: &dyn Ground) {
    let (one, id) = (open(ground).await, EventId::new());
    let stock = go(&one, "stock", id).await;
    let mail = go(&one, "mail", id).await;
    assert!(finish(&one, "stock", id, stock).await);
    assert_eq!(begin(&one, "stock", id).await, Begun::Done);
    let until = ground.clock().now() + LEASE;
    assert_eq!(begin(&one, "mail", id).await, Begun::Busy { until });
    assert!(finish(&one, "mail", id, mail).await);
    ground.clock().advance(Duration::from_secs(3600));
    assert_eq!(begin(&one, "mail", id).await, Begun::Done);
}
