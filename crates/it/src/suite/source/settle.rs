//! What becomes of a claim: each outcome, once.

use event::{Outcome, Status};

use crate::ground::Ground;
use crate::suite::act::{
    LEASE, MILLI, Relay, SECOND, dead, done, ids, keyed, relay, release, retry, unkeyed,
};

/// What was published is never handed out again.
pub async fn done_is_final(ground: &dyn Ground) {
    stays(ground, done(), Status::Sent).await;
}

/// What was given up waits for a person, and for nobody else.
pub async fn dead_is_final(ground: &dyn Ground) {
    stays(ground, dead(), Status::Dead).await;
}

async fn stays(ground: &dyn Ground, outcome: Outcome, status: Status) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    one.put(&[keyed("1")]).await;
    let claims = one.claim(1).await;
    one.end(&claims, &outcome).await;
    for again in [done(), dead(), retry(SECOND), release()] {
        let settled = one.settle(&claims, &again).await;
        assert_eq!((settled.settled, settled.stale), (0, ids(&claims)), "{again:?}");
    }
    for _ in 0..3 {
        ground.clock().advance(LEASE);
        assert_eq!(one.claim(10).await, []);
        assert_eq!(other.claim(10).await, []);
    }
    assert_eq!(one.look(claims[0].event.id).await.status, status);
}

/// A settlement that is repeated, because its answer was lost, does nothing.
pub async fn settling_twice_changes_nothing_the_second_time(ground: &dyn Ground) {
    let one = relay(ground).await;
    for outcome in [done(), dead(), retry(SECOND), release()] {
        one.put(&[unkeyed()]).await;
        let claims = one.claim(1).await;
        one.end(&claims, &outcome).await;
        let before = one.find(&Default::default()).await;
        let settled = one.settle(&claims, &outcome).await;
        assert_eq!((settled.settled, settled.stale), (0, ids(&claims)), "{outcome:?}");
        assert_eq!(one.find(&Default::default()).await, before, "{outcome:?}");
        clear(ground, &one).await;
    }
}

/// A refused event waits out its time to the millisecond.
pub async fn a_retry_is_due_after_its_time_and_counts_the_attempt(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[keyed("1")]).await;
    for attempt in 1..4 {
        let claim = one.claim_one().await;
        assert_eq!(claim.attempt, attempt);
        one.end(&[claim], &retry(2 * SECOND)).await;
        ground.clock().advance(2 * SECOND - MILLI);
        assert_eq!(one.claim(10).await, []);
        ground.clock().advance(MILLI);
    }
    assert_eq!(one.claim(10).await.len(), 1);
}

/// A destination that is down costs an event nothing, however often it is asked.
pub async fn a_release_spends_no_attempt(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[keyed("1")]).await;
    for _ in 0..5 {
        let claim = one.claim_one().await;
        assert_eq!(claim.attempt, 1);
        one.end(&[claim], &release()).await;
    }
    let claim = one.claim_one().await;
    one.end(&[claim], &retry(SECOND)).await;
    for _ in 0..5 {
        ground.clock().advance(SECOND);
        let claim = one.claim_one().await;
        assert_eq!(claim.attempt, 2);
        one.end(&[claim], &Outcome::Release { after: SECOND }).await;
        ground.clock().advance(SECOND - MILLI);
        assert_eq!(one.claim(10).await, [], "a released retry waits");
        ground.clock().advance(MILLI);
    }
}

/// One stale settlement does not take the others with it, nor do they carry it; of two for one
/// claim, the first counts.
pub async fn each_settlement_of_many_is_judged_by_itself(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[unkeyed(), unkeyed(), unkeyed(), unkeyed()]).await;
    let claims = one.claim(10).await;
    one.end(&claims[..1], &done()).await;
    let outcomes = [done(), retry(SECOND), dead(), release()];
    let ends: Vec<_> =
        claims.iter().zip(outcomes).map(|(claim, outcome)| claim.end(outcome)).collect();
    let twice: Vec<_> = ends.iter().cloned().chain([claims[1].end(done())]).collect();
    let settled = one.lane.settle(&twice).await.expect("the store settles");
    let stale = vec![claims[0].event.id, claims[1].event.id];
    assert_eq!((settled.settled, settled.stale), (3, stale));
    let wanted = [Status::Sent, Status::Retry, Status::Dead, Status::New];
    for (claim, status) in claims.iter().zip(wanted) {
        assert_eq!(one.look(claim.event.id).await.status, status);
    }
}

/// Committed is sent and dead and pending, after every step of an eventful life.
pub async fn nothing_is_lost_or_made_up_at_any_step(ground: &dyn Ground) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    let mut committed = 0;
    for round in 0..12 {
        let events = [keyed("a"), keyed("b"), unkeyed()];
        one.put(&events).await;
        one.put_at(&keyed("a"), ground.clock().now() + SECOND).await;
        committed += 4;
        conserved(&one, committed).await;
        let relay = if round % 4 == 3 { &other } else { &one };
        for (n, claim) in relay.claim(5).await.into_iter().enumerate() {
            let outcomes = [done(), retry(SECOND), release(), dead()];
            if let Some(outcome) = outcomes.get((n + round) % 5) {
                relay.settle(&[claim], outcome).await;
            }
            conserved(&one, committed).await;
        }
        ground.clock().advance(if round % 3 == 0 { LEASE } else { SECOND });
        conserved(&one, committed).await;
    }
    clear(ground, &other).await;
    assert_eq!(other.count().await.pending(), 0);
    conserved(&one, committed).await;
}

async fn conserved(relay: &Relay, committed: u64) {
    let counts = relay.count().await;
    assert_eq!(counts.committed(), committed, "{counts:?}");
    let rows = relay.find(&Default::default()).await.len() as u64;
    assert_eq!(rows, committed, "{counts:?}");
}

/// Publishes everything that is left.
async fn clear(ground: &dyn Ground, relay: &Relay) {
    for _ in 0..100 {
        if relay.count().await.pending() == 0 {
            return;
        }
        ground.clock().advance(LEASE);
        loop {
            let claims = relay.claim(100).await;
            if claims.is_empty() {
                break;
            }
            relay.end(&claims, &done()).await;
        }
    }
    panic!("something waits for ever: {:?}", relay.find(&Default::default()).await);
}
