//! Claims, leases and fences: each row to one holder, until the lease runs out.

use std::collections::HashSet;

use event::Status;

use crate::ground::Ground;
use crate::suite::act::{
    LEASE, MILLI, claim, dead, done, ids, ids_of, keyed, relay, release, retry, settle, unkeyed,
};

/// A row in hand stays in hand, for the lane that has it and for every other relay.
pub async fn a_claimed_row_is_not_handed_out_again_before_its_lease_runs_out(ground: &dyn Ground) {
    let (one, other) = (relay(ground).await, relay(ground).await);
    one.put(&[keyed("1"), unkeyed()]).await;
    assert_eq!(one.claim(10).await.len(), 2);
    ground.clock().advance(LEASE - MILLI);
    assert_eq!(one.claim(10).await, []);
    assert_eq!(other.claim(10).await, []);
}

/// A claim that nobody settled comes back, and is known to have been tried.
pub async fn an_unsettled_claim_comes_back_with_a_higher_fence_and_one_more_attempt(
    ground: &dyn Ground,
) {
    let one = relay(ground).await;
    one.put(&[keyed("1")]).await;
    let mut last = one.claim_one().await;
    assert_eq!(last.attempt, 1);
    for attempt in 2..5 {
        ground.clock().advance(LEASE);
        let next = one.claim_one().await;
        assert_eq!((next.event.id, next.attempt), (last.event.id, attempt));
        assert_eq!(next.unexplained, attempt - 1, "nobody said what became of the earlier ones");
        assert!(next.fence > last.fence, "{:?} after {:?}", next.fence, last.fence);
        last = next;
    }
}

/// Whatever the late relay has to say, the row stays as its new holder has it.
pub async fn a_settlement_from_before_the_lease_ran_out_is_stale_and_changes_nothing(
    ground: &dyn Ground,
) {
    let (late, other) = (relay(ground).await, relay(ground).await);
    late.put(&[unkeyed(), unkeyed(), unkeyed(), unkeyed()]).await;
    let old = late.claim(10).await;
    ground.clock().advance(LEASE);
    let new = other.claim(10).await;
    assert!(!new.is_empty());
    let before = late.find(&Default::default()).await;
    for (claim, outcome) in old.iter().zip([done(), dead(), release()]) {
        let settled = late.settle(std::slice::from_ref(claim), &outcome).await;
        assert_eq!((settled.settled, settled.stale), (0, vec![claim.event.id]), "{outcome:?}");
    }
    let settled = late.settle(&old, &retry(LEASE)).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&old)));
    assert_eq!(late.find(&Default::default()).await, before);
    other.end(&new, &done()).await;
    let settled = late.settle(&old, &retry(LEASE)).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&old)));
    assert_eq!(late.count().await.sent, new.len() as u64);
}

/// However many relays ask at once, a row has one holder.
pub async fn two_relays_never_hold_the_same_row(ground: &dyn Ground) {
    let producer = relay(ground).await;
    let events: Vec<_> = (0..60).map(|n| keyed(&(n % 7).to_string())).collect();
    producer.put(&events).await;
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let one = relay(ground).await;
        asking.spawn(async move {
            let mut held = Vec::new();
            for _ in 0..20 {
                held.extend(ids(&claim(&one.lane, 3).await));
            }
            held
        });
    }
    let held = asking.join_all().await.concat();
    let apart: HashSet<_> = held.iter().collect();
    assert_eq!(apart.len(), held.len(), "two hold one row");
    assert!(!held.is_empty());
}

/// What is in hand is taken over exactly when the lease has run out. Where shards are leased, so is
/// what waits beside it.
pub async fn a_standby_takes_over_when_the_lease_runs_out_and_not_before(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    let events = [unkeyed(), unkeyed(), unkeyed()];
    owner.put(&events).await;
    let in_hand = owner.claim_one().await;
    ground.clock().advance(LEASE - MILLI);
    let early = standby.claim(10).await;
    assert_eq!(early.len(), if ground.traits().competing() { 2 } else { 0 });
    assert!(!ids(&early).contains(&in_hand.event.id));
    ground.clock().advance(MILLI);
    let mut taken: HashSet<_> = ids(&early).into_iter().collect();
    for _ in 0..3 {
        for claim in standby.claim(10).await {
            assert_eq!(claim.attempt, if claim.event.id == in_hand.event.id { 2 } else { 1 });
            assert!(taken.insert(claim.event.id));
        }
    }
    assert_eq!(taken, ids_of(&events).into_iter().collect());
}

/// A standby can be told from the relay that works. Where relays compete, each works.
pub async fn a_lane_knows_that_another_relay_holds_what_waits(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    let stand_by = || (owner.lane.aside().stands_by, standby.lane.aside().stands_by);
    owner.put(&[unkeyed(), unkeyed()]).await;
    if ground.traits().competing() {
        assert_eq!((owner.claim(1).await.len(), standby.claim(1).await.len()), (1, 1));
        assert_eq!((owner.claim(1).await.len(), standby.claim(1).await.len()), (0, 0));
        assert_eq!(stand_by(), (false, false));
        return;
    }
    assert_eq!((owner.claim(1).await.len(), standby.claim(1).await.len()), (1, 0));
    assert_eq!(stand_by(), (false, true));
    ground.clock().advance(LEASE);
    assert_eq!((standby.claim(1).await.len(), owner.claim(1).await.len()), (1, 0));
    assert_eq!(stand_by(), (true, false));
}

/// An owner that claims and settles is not taken over, however long it goes on. Where relays
/// compete, that is so for what it has in hand.
pub async fn an_owner_that_goes_on_keeps_its_lease(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    owner.put(&(0..8).map(|_| unkeyed()).collect::<Vec<_>>()).await;
    for _ in 0..6 {
        let claim = owner.claim_one().await;
        assert_eq!(claim.attempt, 1);
        ground.clock().advance(LEASE / 2);
        let beside = standby.claim(10).await;
        assert!(ground.traits().competing() || beside.is_empty(), "{beside:?} is the owner's");
        assert!(!ids(&beside).contains(&claim.event.id));
        standby.end(&beside, &release()).await;
        owner.end(&[claim], &done()).await;
    }
}

/// A claim lasts as long as it said, however busy its relay is with others.
pub async fn a_turn_that_overstays_loses_its_claim_though_its_relay_lives(ground: &dyn Ground) {
    let owner = relay(ground).await;
    owner.put(&(0..4).map(|_| unkeyed()).collect::<Vec<_>>()).await;
    let slow = owner.claim(1).await;
    ground.clock().advance(LEASE / 2);
    let quick = owner.claim_one().await;
    owner.end(&[quick], &done()).await;
    ground.clock().advance(LEASE / 2);
    let again = owner.claim_one().await;
    assert_eq!((again.event.id, again.attempt), (slow[0].event.id, 2));
    let settled = owner.settle(&slow, &done()).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&slow)));
    owner.end(&[again], &done()).await;
}

/// One slow turn is its own affair: what the others have in hand is theirs until their time.
pub async fn a_turn_that_overstays_takes_nothing_from_the_turns_beside_it(ground: &dyn Ground) {
    let owner = relay(ground).await;
    owner.put(&[keyed("1"), keyed("2")]).await;
    let slow = owner.claim(1).await;
    ground.clock().advance(LEASE / 2);
    let quick = owner.claim(1).await;
    ground.clock().advance(LEASE / 2);
    let again = owner.claim(10).await;
    assert_eq!(ids(&again), ids(&slow), "only what overstayed is handed out again");
    owner.end(&quick, &done()).await;
    owner.end(&again, &done()).await;
    assert_eq!(owner.count().await.sent, 2);
}

/// The same row in the same hand is still another claim.
pub async fn a_claim_from_before_a_release_ends_nothing_of_the_next_one(ground: &dyn Ground) {
    let owner = relay(ground).await;
    owner.put(&[unkeyed()]).await;
    let before = owner.claim(1).await;
    owner.end(&before, &release()).await;
    let after = owner.claim(1).await;
    assert_eq!(ids(&after), ids(&before));
    let settled = owner.settle(&before, &dead()).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&before)));
    owner.end(&after, &done()).await;
}

/// Clocks are set back. Leases last longer then, and nothing is handed out twice or lost.
pub async fn a_clock_that_is_set_back_hands_nothing_out_twice(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    owner.put(&[keyed("1"), keyed("2")]).await;
    let in_hand = owner.claim(1).await;
    ground.clock().set_back(100 * LEASE);
    owner.put(&[keyed("3")]).await;
    // A shard in which nothing was before has no owner yet.
    if ground.traits().shards == 1 {
        assert_eq!(standby.claim(10).await, []);
    }
    let rest = owner.claim(10).await;
    assert_eq!(rest.len(), 2, "what waits does not wait for the clock");
    assert!(!ids(&rest).contains(&in_hand[0].event.id));
    owner.end(&in_hand, &done()).await;
    owner.end(&rest[..1], &retry(LEASE)).await;
    owner.end(&rest[1..], &done()).await;
    assert_eq!(owner.claim(10).await, []);
    ground.clock().advance(LEASE);
    let again = owner.claim_one().await;
    assert_eq!((again.event.id, again.attempt), (rest[0].event.id, 2));
    owner.end(&[again], &done()).await;
    assert_eq!(owner.count().await.sent, 3);
}

/// A lease that would run for hours was taken by a clock that was ahead. Nobody waits for it.
pub async fn a_lease_from_a_clock_that_was_ahead_is_taken_over(ground: &dyn Ground) {
    let (gone, standby) = (relay(ground).await, relay(ground).await);
    gone.put(&[unkeyed(), unkeyed()]).await;
    assert_eq!(gone.claim(10).await.len(), 2);
    ground.clock().set_back(10_000 * LEASE);
    let mut taken = 0;
    for _ in 0..3 {
        let claims = standby.claim(10).await;
        taken += claims.len();
        standby.end(&claims, &done()).await;
    }
    assert_eq!(taken, 2);
}

/// A graceful stop needs no lease to run out.
pub async fn a_released_lane_hands_over_at_once(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    owner.put(&[keyed("1"), keyed("1")]).await;
    let first = owner.claim_one().await;
    owner.end(&[first], &done()).await;
    if ground.traits().competing() {
        assert_eq!(owner.claim(1).await.len(), 1, "only what is in hand is its own");
    }
    assert_eq!(standby.claim(10).await, []);
    owner.lane.release().await.expect("the store releases");
    let second = standby.claim_one().await;
    assert_eq!(second.attempt, 1);
    assert_eq!(owner.claim(10).await, [], "the new owner holds it");
    standby.end(&[second], &done()).await;
    assert_eq!(owner.count().await.sent, 2);
}

/// A relay that found nothing holds nothing, and goes as others do.
pub async fn a_lane_that_holds_nothing_is_released_too(ground: &dyn Ground) {
    let (idle, busy) = (relay(ground).await, relay(ground).await);
    assert_eq!(idle.claim(10).await, []);
    idle.lane.release().await.expect("the store releases");
    busy.put(&[unkeyed()]).await;
    let claim = busy.claim_one().await;
    busy.end(&[claim], &done()).await;
    assert_eq!(busy.count().await.sent, 1);
}

/// Rows in hand at a release go back as if they had not been claimed, and its claims are stale.
pub async fn what_was_in_hand_at_a_release_spends_no_attempt(ground: &dyn Ground) {
    let (owner, standby) = (relay(ground).await, relay(ground).await);
    owner.put(&[unkeyed()]).await;
    let claims = owner.claim(1).await;
    owner.lane.release().await.expect("the store releases");
    let again = standby.claim_one().await;
    assert_eq!((again.event.id, again.attempt), (claims[0].event.id, 1));
    let settled = settle(&owner.lane, &claims, &done()).await;
    assert_eq!((settled.settled, settled.stale), (0, ids(&claims)));
    assert_eq!(owner.look(again.event.id).await.status, Status::Dispatching);
}
