//! Upkeep: trims what is old, in small steps, and never a dead row.

use std::time::Duration;

use event::{Begun, EventId, Filter, InboxEnd, Keep, Status, Swept};
use store::Outbox;

use crate::ground::Ground;
use crate::suite::act::{LEASE, MILLI, Relay, SECOND, cause, dead, done, relay, retry, unkeyed};

const DAY: Duration = Duration::from_secs(86_400);

fn keep() -> Keep {
    Keep { sent: 7 * DAY, inbox: 30 * DAY, step: 100, lease: 60 * SECOND }
}

/// So short that no store lets history go by the day.
fn keep_briefly() -> Keep {
    Keep { sent: DAY, ..keep() }
}

async fn sweep(outbox: &dyn Outbox, keep: &Keep) -> Swept {
    outbox.chores().sweep(keep).await.expect("the store sweeps")
}

/// Publishes so many events.
async fn publish(relay: &Relay, count: usize) {
    relay.put(&(0..count).map(|_| unkeyed()).collect::<Vec<_>>()).await;
    let claims = relay.claim(count).await;
    relay.end(&claims, &done()).await;
}

async fn sent(relay: &Relay) -> usize {
    relay.find(&Filter { status: Some(Status::Sent), ..Filter::default() }).await.len()
}

/// History goes when its time is over, and what it held stays counted.
pub async fn only_old_history_is_trimmed_and_still_counted(ground: &dyn Ground) {
    let one = relay(ground).await;
    publish(&one, 3).await;
    ground.clock().advance(4 * DAY);
    publish(&one, 2).await;
    assert_eq!(sweep(&*one.outbox, &keep()).await.sent, 0);
    ground.clock().advance(3 * DAY + MILLI);
    assert_eq!(sweep(&*one.outbox, &keep()).await.sent, 3);
    assert_eq!(sent(&one).await, 2);
    ground.clock().advance(4 * DAY);
    assert_eq!(sweep(&*one.outbox, &keep()).await.sent, 2);
    let counts = one.count().await;
    assert_eq!((sent(&one).await, counts.sent, counts.committed()), (0, 5, 5));
}

/// History goes by when it was sent, also where its rows seem to be created after that.
pub async fn history_that_was_created_ahead_goes_in_its_time(ground: &dyn Ground) {
    let one = relay(ground).await;
    ground.clock().advance(3 * DAY);
    one.put(&[unkeyed()]).await;
    ground.clock().set_back(3 * DAY);
    let claims = one.claim(1).await;
    one.end(&claims, &done()).await;
    ground.clock().advance(DAY + MILLI);
    assert_eq!(sweep(&*one.outbox, &keep_briefly()).await.sent, 1);
    assert_eq!((sent(&one).await, one.count().await.sent), (0, 1));
}

/// A large history never makes a large step.
pub async fn a_step_trims_no_more_than_its_size(ground: &dyn Ground) {
    let one = relay(ground).await;
    publish(&one, 25).await;
    ground.clock().advance(8 * DAY);
    let keep = Keep { step: 10, ..keep_briefly() };
    for (trimmed, left) in [(10, 15), (10, 5), (5, 0), (0, 0)] {
        assert_eq!(sweep(&*one.outbox, &keep).await.sent, trimmed);
        assert_eq!(sent(&one).await, left);
    }
}

/// Dead rows, and rows that wait, outlast every retention.
pub async fn the_dead_are_never_trimmed(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed(), unkeyed()]).await;
    let claims = one.claim(10).await;
    one.end(&claims[..1], &dead()).await;
    one.end(&claims[1..], &retry(LEASE)).await;
    one.put(&[unkeyed()]).await;
    let nothing = Keep { sent: Duration::ZERO, inbox: Duration::ZERO, ..keep() };
    for _ in 0..3 {
        ground.clock().advance(1000 * DAY);
        assert_eq!(sweep(&*one.outbox, &nothing).await.sent, 0);
    }
    let counts = one.count().await;
    assert_eq!((counts.dead, counts.pending()), (1, 2));
    assert_eq!(one.find(&Filter::default()).await.len(), 3);
}

/// What a group remembers goes when it is old, however the work ended; a live lease does not.
pub async fn only_old_inbox_memory_is_trimmed(ground: &dyn Ground) {
    let one = relay(ground).await;
    let inbox = one.outbox.inbox();
    let [processed, failed, silent, live] = [0; 4].map(|_| EventId::new());
    for (id, end) in [(processed, InboxEnd::Processed), (failed, InboxEnd::Failed(cause()))] {
        let Ok(Begun::Go(fence)) = inbox.begin("stock", id, LEASE).await else {
            panic!("a free event may be begun");
        };
        assert_eq!(inbox.finish("stock", id, fence, end).await, Ok(true));
    }
    for (id, lease) in [(silent, LEASE), (live, 31 * DAY)] {
        assert!(matches!(inbox.begin("stock", id, lease).await, Ok(Begun::Go(_))));
    }
    ground.clock().advance(30 * DAY);
    assert_eq!(sweep(&*one.outbox, &keep()).await.inbox, 0);
    assert_eq!(inbox.begin("stock", processed, LEASE).await, Ok(Begun::Done));
    ground.clock().advance(MILLI);
    assert_eq!(sweep(&*one.outbox, &keep()).await.inbox, 3);
    assert_eq!(sweep(&*one.outbox, &keep()).await.inbox, 0);
    assert!(matches!(inbox.begin("stock", live, LEASE).await, Ok(Begun::Busy { .. })));
    assert!(matches!(inbox.begin("stock", processed, LEASE).await, Ok(Begun::Go(_))));
}

/// A second relay leaves the chores alone until the first has fallen silent.
pub async fn one_relay_at_a_time_holds_the_chores(ground: &dyn Ground) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    publish(&one, 5).await;
    ground.clock().advance(8 * DAY);
    let keep = Keep { step: 1, ..keep_briefly() };
    assert_eq!(sweep(&*one.outbox, &keep).await.sent, 1);
    let elsewhere = Swept { sent: 0, inbox: 0, elsewhere: true };
    assert_eq!(sweep(&*other.outbox, &keep).await, elsewhere);
    ground.clock().advance(keep.lease - MILLI);
    assert_eq!(sweep(&*other.outbox, &keep).await, elsewhere);
    assert_eq!(sweep(&*one.outbox, &keep).await.sent, 1);
    ground.clock().advance(keep.lease - MILLI);
    assert_eq!(sweep(&*other.outbox, &keep).await, elsewhere, "a step keeps the chores");
    ground.clock().advance(MILLI);
    assert_eq!(sweep(&*other.outbox, &keep).await.sent, 1);
    assert_eq!(sweep(&*one.outbox, &keep).await, elsewhere);
}
