//! Order per key. Stores that promise none pass by saying so in their traits.

use event::{Order, Status};

use crate::ground::Ground;
use crate::suite::act::{
    LEASE, SECOND, dead, done, ids, ids_of, keyed, relay, relay_with, release, retry, unkeyed,
};

/// One claim may take several rows of a key, in the order of their commits.
pub async fn rows_of_one_key_come_in_order_within_a_claim(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = ["a", "b", "a", "a", "b"].map(keyed);
    one.put(&events).await;
    let claimed = ids(&one.claim(10).await);
    if ground.traits().ordered {
        assert_eq!(claimed, ids_of(&events));
    }
    assert_eq!(claimed.len(), events.len());
}

/// While a row of a key is in hand, its followers are not given to another turn.
pub async fn followers_wait_while_their_key_is_in_hand(ground: &dyn Ground) {
    if !ground.traits().ordered {
        return;
    }
    let one = relay(ground).await;
    let events = ["a", "a", "b", "a"].map(keyed);
    one.put(&events).await;
    let first = one.claim(1).await;
    assert_eq!(ids(&first), [events[0].id]);
    let beside = one.claim(10).await;
    assert_eq!(ids(&beside), [events[2].id], "only another key may go on");
    one.end(&first, &done()).await;
    assert_eq!(ids(&one.claim(10).await), [events[1].id, events[3].id]);
}

/// A refused event holds its own key, also for those that are put while it waits.
pub async fn followers_wait_behind_a_retry(ground: &dyn Ground) {
    if !ground.traits().ordered {
        return;
    }
    let one = relay(ground).await;
    let events = ["a", "a", "a"].map(keyed);
    one.put(&events[..2]).await;
    for _ in 0..3 {
        let head = one.claim(1).await;
        assert_eq!(ids(&head), [events[0].id]);
        one.end(&head, &retry(2 * SECOND)).await;
        ground.clock().advance(SECOND);
        assert_eq!(one.claim(10).await, []);
        ground.clock().advance(SECOND);
    }
    one.put(&events[2..]).await;
    let head = one.claim(1).await;
    assert_eq!(ids(&head), [events[0].id]);
    one.end(&head, &done()).await;
    assert_eq!(ids(&one.claim(10).await), ids_of(&events[1..]));
}

/// Where nobody needs order, a refused event holds nobody.
pub async fn followers_pass_a_retry_where_the_lane_says_so(ground: &dyn Ground) {
    let one = relay_with(ground, Order::Pass).await;
    let events = ["a", "a", "a"].map(keyed);
    one.put(&events).await;
    let head = one.claim(1).await;
    assert_eq!(one.claim(1).await.len(), 1, "the key is in hand, and goes on");
    one.end(&head, &retry(SECOND)).await;
    assert_eq!(one.claim(10).await.len(), 1, "the key waits, and goes on");
    ground.clock().advance(SECOND);
    let again = one.claim(10).await;
    assert_eq!((ids(&again), again[0].attempt), (ids(&head), 2));
}

/// Otherwise its followers would wait for a person.
pub async fn a_dead_event_frees_its_key(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = ["a", "a"].map(keyed);
    one.put(&events).await;
    let head = one.claim(1).await;
    one.end(&head, &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    let head = one.claim(1).await;
    one.end(&head, &dead()).await;
    let follower = one.claim(10).await;
    assert_eq!(ids(&follower), [events[1].id]);
    one.end(&follower, &done()).await;
    assert_eq!(one.look(events[0].id).await.status, Status::Dead);
}

/// A key that waits costs the others nothing.
pub async fn keys_do_not_wait_for_each_other(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = ["a", "b", "a", "c", "b"].map(keyed);
    one.put(&events).await;
    let head = one.claim(1).await;
    one.end(&head, &retry(100 * SECOND)).await;
    let others = one.claim(10).await;
    if ground.traits().ordered {
        assert_eq!(ids(&others), [events[1].id, events[3].id, events[4].id]);
    }
    one.end(&others, &done()).await;
    assert_eq!(one.count().await.sent, others.len() as u64);
}

/// A row without a key has no line to stand in.
pub async fn rows_without_a_key_wait_for_nobody(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed(), unkeyed(), unkeyed()]).await;
    let first = one.claim(1).await;
    one.end(&first, &retry(100 * SECOND)).await;
    assert_eq!(one.claim(1).await.len(), 1);
    assert_eq!(one.claim(10).await.len(), 1);
}

/// A batch that is put back comes again in the same order, behind what was refused.
pub async fn order_survives_a_release_of_the_whole_batch(ground: &dyn Ground) {
    if !ground.traits().ordered {
        return;
    }
    let one = relay(ground).await;
    let events = ["a", "a", "a"].map(keyed);
    one.put(&events).await;
    let batch = one.claim(10).await;
    one.end(&batch, &release()).await;
    let batch = one.claim(10).await;
    assert_eq!(ids(&batch), ids_of(&events));
    one.end(&batch[..1], &retry(SECOND)).await;
    one.end(&batch[1..], &release()).await;
    assert_eq!(one.claim(10).await, []);
    ground.clock().advance(SECOND);
    let mut came = Vec::new();
    loop {
        let batch = one.claim(10).await;
        if batch.is_empty() {
            break;
        }
        came.extend(ids(&batch));
        one.end(&batch, &done()).await;
    }
    assert_eq!(came, ids_of(&events));
}

/// A new owner starts where the tables say, not where the dead one stood.
pub async fn order_survives_a_take_over(ground: &dyn Ground) {
    if !ground.traits().ordered {
        return;
    }
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    let a = ["a", "a", "a", "a"].map(keyed);
    let b = ["b", "b"].map(keyed);
    owner.put(&a).await;
    owner.put(&b).await;
    let batch = owner.claim(2).await;
    assert_eq!(ids(&batch), ids_of(&a[..2]));
    let rest = owner.claim(10).await;
    assert_eq!(ids(&rest), ids_of(&b));
    owner.end(&rest[..1], &retry(2 * LEASE)).await;
    ground.clock().advance(LEASE);
    let mut came = Vec::new();
    for _ in 0..10 {
        for claim in standby.claim(2).await {
            came.push(claim.event.id);
            standby.end(&[claim], &done()).await;
        }
        ground.clock().advance(SECOND);
    }
    let of = |line: &[event::Event]| -> Vec<_> {
        came.iter().filter(|id| ids_of(line).contains(id)).copied().collect()
    };
    assert_eq!(of(&a), ids_of(&a));
    assert_eq!(of(&b), [], "the first of b waits, and so does the second");
    ground.clock().advance(LEASE);
    for wanted in &b {
        let claims = standby.claim(1).await;
        assert_eq!(ids(&claims), [wanted.id]);
        standby.end(&claims, &done()).await;
    }
}

/// Many followers that are due, but wait for their head, leave room for others that are due.
pub async fn rows_that_wait_behind_their_key_do_not_starve_others(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    let line: Vec<_> = (0..40).map(|_| keyed("a")).collect();
    owner.put(&line).await;
    assert_eq!(owner.claim(40).await.len(), 40);
    ground.clock().advance(LEASE);
    let head = standby.claim(1).await;
    standby.end(&head, &retry(100 * LEASE)).await;
    ground.clock().advance(SECOND);
    let other = keyed("b");
    standby.put_at(&other, ground.clock().now()).await;
    let mut came = Vec::new();
    // Where no order is kept they do not wait, and those that were due before it come before it.
    let turns = if ground.traits().ordered { 10 } else { 50 };
    for _ in 0..turns {
        let claims = standby.claim(2).await;
        came.extend(ids(&claims));
        standby.end(&claims, &done()).await;
    }
    assert!(came.contains(&other.id), "the rows behind {:?} starve {}", head, other.id);
}
