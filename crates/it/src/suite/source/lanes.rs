//! Several lanes on one outbox: each takes its own topics, and none loses another's.

use std::sync::Arc;

use event::{Event, Order, Pattern, Source, Topics};
use store::{Lane, Outbox};

use crate::ground::Ground;
use crate::suite::act::{
    LEASE, Relay, SECOND, claim, done, ids, ids_of, keyed, relay, release, retry, settle,
};

fn on(topic: &str) -> Event {
    Event::new(topic, "T", "{}")
}

fn lane(outbox: &Arc<dyn Outbox>, topics: Topics) -> Arc<dyn Source> {
    outbox.lane(Lane { topics, order: Order::Hold })
}

fn pattern(text: &str) -> Pattern {
    text.parse().expect("a pattern")
}

/// Returns a lane for `a.*` and one for everything else.
fn two(relay: &Relay) -> (Arc<dyn Source>, Arc<dyn Source>) {
    let a = Topics::of(vec![(pattern("a.*"), true)]);
    let rest = Topics::unrouted([pattern("a.*")]);
    (lane(&relay.outbox, a), lane(&relay.outbox, rest))
}

/// A lane that reads past a row leaves it for the lane that takes it.
pub async fn rows_of_other_lanes_are_passed_over_and_not_lost(ground: &dyn Ground) {
    let one = relay(ground).await;
    let (a, rest) = two(&one);
    let events: Vec<_> = (0..30).map(|n| on(if n % 10 == 9 { "a.x" } else { "b.x" })).collect();
    one.put(&events).await;
    let mine = claim(&a, 3).await;
    assert_eq!(mine.len(), 3);
    assert!(mine.iter().all(|claim| claim.event.topic == "a.x"));
    settle(&a, &mine, &done()).await;
    assert_eq!(claim(&a, 10).await, []);
    let others = claim(&rest, 100).await;
    assert_eq!(others.len(), 27);
    settle(&rest, &others, &done()).await;
    assert_eq!(one.count().await.sent, 30);
}

/// Whatever the lanes do at once, each row is in one hand.
pub async fn two_lanes_of_one_relay_see_disjoint_rows(ground: &dyn Ground) {
    let one = relay(ground).await;
    let (a, rest) = two(&one);
    let events: Vec<_> = (0..20).map(|n| on(if n % 2 == 0 { "a.x" } else { "b.x" })).collect();
    one.put(&events).await;
    one.put_at(&on("a.later"), ground.clock().now()).await;
    one.put_at(&on("b.later"), ground.clock().now()).await;
    let mut came = Vec::new();
    for _ in 0..10 {
        let (x, y) = tokio::join!(claim(&a, 3), claim(&rest, 3));
        assert!(x.iter().all(|claim| claim.event.topic.starts_with("a.")));
        assert!(y.iter().all(|claim| claim.event.topic.starts_with("b.")));
        came.extend(ids(&x).into_iter().chain(ids(&y)));
    }
    came.sort();
    let all = came.len();
    came.dedup();
    assert_eq!((all, came.len()), (22, 22));
}

/// A lane need not be there when its rows come, nor when its relay takes over.
pub async fn a_lane_opened_late_finds_what_waits(ground: &dyn Ground) {
    let one = relay(ground).await;
    let a = lane(&one.outbox, Topics::of(vec![(pattern("a.*"), true)]));
    let events = [on("a.x"), on("b.x").key("1"), on("b.x").key("1")];
    one.put(&events).await;
    assert_eq!(claim(&a, 10).await.len(), 1);
    let rest = lane(&one.outbox, Topics::unrouted([pattern("a.*")]));
    let claims = claim(&rest, 10).await;
    assert_eq!(ids(&claims), ids_of(&events[1..]));
    settle(&rest, &claims[..1], &retry(LEASE)).await;
    settle(&rest, &claims[1..], &release()).await;
    let again = lane(&one.outbox, Topics::unrouted([pattern("a.*")]));
    let follower = claim(&again, 10).await;
    assert!(!ground.traits().ordered || follower.is_empty(), "{follower:?} passed its head");
}

/// Lanes go to different destinations: order is kept within each.
pub async fn a_key_that_waits_in_one_lane_does_not_wait_in_another(ground: &dyn Ground) {
    let one = relay(ground).await;
    let (a, rest) = two(&one);
    one.put(&[on("a.x").key("1"), on("b.x").key("1"), keyed("1")]).await;
    let head = claim(&a, 10).await;
    settle(&a, &head, &retry(100 * SECOND)).await;
    assert_eq!(claim(&rest, 10).await.len(), 2);
}

/// One lane's end is not the end of the others: their claims live on, and so does the lease.
pub async fn a_lane_that_releases_takes_nothing_from_another(ground: &dyn Ground) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    let (a, rest) = two(&one);
    // One key is one shard.
    one.put(&[on("a.x").key("1"), on("b.x").key("1"), on("b.x").key("1")]).await;
    let back = claim(&a, 10).await;
    let kept = claim(&rest, 1).await;
    a.release().await.expect("the store releases");
    let mut left = other.claim(10).await;
    match ground.traits().competing() {
        true => assert_eq!(left.len(), 2, "what nobody has in hand is anybody's"),
        false => assert_eq!(left, [], "the other lane still works under the lease"),
    }
    let settled = settle(&a, &back, &done()).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&back)));
    let settled = settle(&rest, &kept, &done()).await;
    assert_eq!((settled.settled, settled.stale), (1, vec![]));
    rest.release().await.expect("the store releases");
    left.extend(other.claim(10).await);
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|claim| claim.attempt == 1), "{left:?}");
}

/// A lane whose turn overstays is tried again; the lanes beside it never hear of it.
pub async fn a_claim_that_overstays_takes_nothing_from_another_lane(ground: &dyn Ground) {
    let one = relay(ground).await;
    let (a, rest) = two(&one);
    one.put(&[on("a.x"), on("b.x")]).await;
    let slow = claim(&a, 10).await;
    ground.clock().advance(LEASE / 2);
    let quick = claim(&rest, 10).await;
    ground.clock().advance(LEASE / 2);
    let again = claim(&a, 10).await;
    assert_eq!((ids(&again), again[0].attempt), (ids(&slow), 2));
    assert_eq!(claim(&rest, 10).await, [], "what it has in hand has time left");
    let settled = settle(&rest, &quick, &done()).await;
    assert_eq!((settled.settled, settled.stale), (1, vec![]));
}

/// Another lane of the same relay knows nothing of a claim, and cannot end it.
pub async fn a_claim_is_settled_by_its_own_lane_only(ground: &dyn Ground) {
    let one = relay(ground).await;
    let (a, rest) = two(&one);
    one.put(&[on("a.x")]).await;
    let claims = claim(&a, 10).await;
    let settled = settle(&rest, &claims, &done()).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&claims)));
    let settled = settle(&a, &claims, &done()).await;
    assert_eq!((settled.settled, settled.stale), (1, vec![]));
}
