//! When a row may be claimed, and beside what.

use event::{Event, Outcome, Want};

use crate::ground::Ground;
use crate::suite::act::{LEASE, MILLI, SECOND, done, ids, keyed, relay, release, retry, unkeyed};

/// An empty outbox hands out nothing, and so does one whose rows all wait.
pub async fn nothing_is_claimed_when_nothing_is_due(ground: &dyn Ground) {
    let one = relay(ground).await;
    assert_eq!(one.claim(10).await, []);
    one.put_at(&unkeyed(), ground.clock().now() + SECOND).await;
    assert_eq!(one.claim(10).await, []);
    assert_eq!(one.count().await.oldest_due, None);
}

/// A delayed event is claimed from its millisecond on, by whoever owns it then.
pub async fn a_delayed_row_comes_when_it_is_due_and_not_before(ground: &dyn Ground) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    let events = [keyed("a"), unkeyed()];
    one.put_at(&events[0], ground.clock().now() + SECOND).await;
    one.put_at(&events[1], ground.clock().now() + SECOND + MILLI).await;
    ground.clock().advance(SECOND - MILLI);
    assert_eq!(one.claim(10).await, []);
    assert_eq!(other.claim(10).await, []);
    ground.clock().advance(MILLI);
    let first = other.claim(10).await;
    assert_eq!((ids(&first), first[0].attempt), (vec![events[0].id], 1));
    other.end(&first, &done()).await;
    ground.clock().advance(MILLI);
    let second = other.claim(10).await;
    assert_eq!(ids(&second), [events[1].id]);
    other.end(&second, &done()).await;
    assert_eq!(one.count().await.sent, 2);
}

/// Delayed rows come in the order of their times, not of their commits.
pub async fn what_is_due_first_comes_first(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = [unkeyed(), unkeyed(), unkeyed()];
    for (event, seconds) in events.iter().zip([3, 1, 2]) {
        one.put_at(event, ground.clock().now() + seconds * SECOND).await;
    }
    ground.clock().advance(5 * SECOND);
    let mut came = Vec::new();
    for _ in 0..3 {
        let claims = one.claim(1).await;
        came.extend(ids(&claims));
        one.end(&claims, &done()).await;
    }
    assert_eq!(came, [events[1].id, events[2].id, events[0].id]);
}

/// Neither a failing backlog nor a flood of fresh events has a claim to itself.
pub async fn retries_and_fresh_rows_share_a_claim(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&(0..10).map(|_| unkeyed()).collect::<Vec<_>>()).await;
    let refused = one.claim(10).await;
    one.end(&refused, &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    one.put(&(0..10).map(|_| unkeyed()).collect::<Vec<_>>()).await;
    let claims = one.claim(6).await;
    let again = claims.iter().filter(|claim| claim.attempt == 2).count();
    assert_eq!((claims.len(), again), (6, 3));
}

/// Large retries fill half of a claim's bytes, and leave the other half to fresh events.
pub async fn large_retries_leave_room_for_fresh_rows(ground: &dyn Ground) {
    let one = relay(ground).await;
    let large = || Event::new("order.paid", "OrderPaid", "x".repeat(100));
    one.put(&(0..10).map(|_| large()).collect::<Vec<_>>()).await;
    let refused = one.claim(10).await;
    one.end(&refused, &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    one.put(&(0..10).map(|_| large()).collect::<Vec<_>>()).await;
    let want = Want { limit: 20, bytes: 600, lease: LEASE };
    let claims = one.lane.claim(&want).await.expect("the store hands out");
    let again = claims.iter().filter(|claim| claim.attempt == 2).count();
    assert_eq!((claims.len(), again), (6, 3));
}

/// Where half of a claim is less than one row, retries and fresh events take turns.
pub async fn a_claim_for_one_row_takes_retries_and_fresh_rows_in_turns(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed(), unkeyed(), unkeyed()]).await;
    let refused = one.claim(10).await;
    one.end(&refused, &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    one.put(&[unkeyed(), unkeyed(), unkeyed()]).await;
    let mut attempts = Vec::new();
    for _ in 0..6 {
        let claim = one.claim_one().await;
        attempts.push(claim.attempt);
        one.end(&[claim], &done()).await;
    }
    assert_eq!(attempts, [2, 1, 2, 1, 2, 1]);
}

/// A claim that finds nothing, and only keeps the lease, takes no turn from fresh events.
pub async fn a_claim_that_finds_nothing_takes_no_turn(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed()]).await;
    let refused = one.claim_one().await;
    one.end(&[refused], &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    let again = one.claim_one().await;
    ground.clock().advance(LEASE / 2);
    assert_eq!(one.claim(1).await, []);
    one.end(&[again], &release()).await;
    one.put(&[unkeyed()]).await;
    assert_eq!(one.claim_one().await.attempt, 1, "the retry has just had its turn");
}

/// When a transaction elsewhere ends, a claim looks again at what it knows: that is no turn.
pub async fn a_claim_that_only_looks_back_takes_no_turn(ground: &dyn Ground) {
    let one = relay(ground).await;
    let elsewhere = ground.elsewhere().await;
    one.put(&[unkeyed(), unkeyed()]).await;
    let refused = one.claim_one().await;
    let _in_hand = one.claim_one().await;
    one.end(&[refused], &retry(SECOND)).await;
    ground.clock().advance(SECOND);
    let again = one.claim_one().await;
    if let Some(open) = elsewhere {
        open.commit().await.expect("the transaction ends");
    }
    assert_eq!(one.claim(1).await, []);
    one.end(&[again], &release()).await;
    one.put(&[unkeyed()]).await;
    assert_eq!(one.claim_one().await.attempt, 1, "the retry has just had its turn");
}

/// Suspects go alone, one after another; fresh events have every second turn.
pub async fn suspects_take_turns_with_fresh_rows(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed(), unkeyed()]).await;
    for _ in 0..2 {
        while !one.claim(10).await.is_empty() {}
        ground.clock().advance(LEASE);
    }
    one.put(&[unkeyed(), unkeyed()]).await;
    let mut attempts = Vec::new();
    for _ in 0..3 {
        let claims = one.claim(10).await;
        attempts.push(claims.iter().map(|claim| claim.attempt).collect::<Vec<_>>());
        one.end(&claims, &done()).await;
    }
    assert!(attempts[..2].contains(&vec![1, 1]), "fresh rows waited: {attempts:?}");
    assert_eq!(attempts.iter().filter(|them| **them == [3]).count(), 2, "{attempts:?}");
}

/// From its second unexplained attempt on, an event endangers nobody else.
pub async fn a_suspect_is_claimed_alone(ground: &dyn Ground) {
    let one = relay(ground).await;
    let events = [unkeyed(), unkeyed(), unkeyed()];
    one.put(&events).await;
    assert_eq!(one.claim(10).await.len(), 3);
    ground.clock().advance(LEASE);
    let mut twice = Vec::new();
    loop {
        let claims = one.claim(10).await;
        if claims.is_empty() {
            break;
        }
        assert!(claims.iter().all(|claim| claim.attempt == 2));
        twice.extend(claims);
    }
    assert_eq!(twice.len(), 3);
    ground.clock().advance(LEASE);
    one.put(&[unkeyed()]).await;
    let mut left = 3;
    while left > 0 {
        let claims = one.claim(10).await;
        let suspects = claims.iter().filter(|claim| claim.attempt == 3).count();
        assert!(suspects == 0 || claims.len() == 1, "a suspect has company: {claims:?}");
        assert!(!claims.is_empty(), "a suspect is never claimed");
        one.end(&claims, &done()).await;
        left -= suspects;
    }
}

/// Once somebody lived to tell, an event is trusted again.
pub async fn a_suspect_that_was_settled_is_no_suspect(ground: &dyn Ground) {
    for outcome in [retry(SECOND), Outcome::Release { after: SECOND }, release()] {
        let one = relay(ground).await;
        one.put(&[unkeyed()]).await;
        for _ in 0..2 {
            assert_eq!(one.claim(10).await.len(), 1);
            ground.clock().advance(LEASE);
        }
        let suspect = one.claim(10).await;
        one.end(&suspect, &outcome).await;
        ground.clock().advance(SECOND);
        one.put(&[keyed("a")]).await;
        let turn = one.claim(10).await;
        one.end(&turn, &done()).await;
        let beside = keyed("b");
        one.put(&[beside]).await;
        let claims = one.claim(10).await;
        assert_eq!(claims.len(), 2, "{outcome:?}");
        one.end(&claims, &done()).await;
        one.lane.release().await.expect("the store releases");
    }
}
