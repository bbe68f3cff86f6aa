//! Where a row stood in line: a number that its event keeps for life.

use event::Sequence;

use crate::ground::Ground;
use crate::suite::act::{LEASE, Relay, SECOND, dead, done, keyed, relay, release, retry, unkeyed};

/// A claim's sequence is the number of its row in the hot table, so of a key it grows.
pub async fn a_claim_tells_where_its_row_stood_in_line(ground: &dyn Ground) {
    let one = relay(ground).await;
    one.put(&[keyed("1"), keyed("1"), unkeyed()]).await;
    one.put(&[keyed("1").header("sequence", "0000000000000000001")]).await;
    let claims = one.claim(10).await;
    assert_eq!(claims.len(), 4);
    for claim in &claims {
        assert!(claim.event.sequence.is_some());
        assert_eq!(claim.event.sequence, Sequence::of(claim.address.number));
    }
    let of_key = claims.iter().filter(|claim| claim.event.key.is_some());
    let line: Vec<_> = of_key.map(|claim| claim.event.sequence).collect();
    assert!(line.is_sorted_by(|before, after| before < after), "{line:?}");
}

/// Whatever becomes of a row, a later claim tells the same.
pub async fn a_sequence_stays_through_every_attempt_and_a_new_life(ground: &dyn Ground) {
    let one = relay(ground).await;
    // Others go before it, so that its numbers in the two tables differ.
    one.put(&[unkeyed(), unkeyed()]).await;
    let before = one.claim(10).await;
    one.end(&before, &done()).await;
    one.put(&[keyed("1")]).await;
    let claim = one.claim_one().await;
    let (id, stood) = (claim.event.id, claim.event.sequence);
    assert!(stood.is_some());
    one.end(&[claim], &release()).await;
    live(ground, &one, stood).await;
    one.requeue(&[id]).await;
    live(ground, &one, stood).await;
}

/// An event that was put with a time never stood in line, and says so in every attempt.
pub async fn a_delayed_event_has_no_sequence(ground: &dyn Ground) {
    let (one, event) = (relay(ground).await, keyed("1"));
    one.put_at(&event, ground.clock().now() + SECOND).await;
    ground.clock().advance(SECOND);
    live(ground, &one, None).await;
    one.requeue(&[event.id]).await;
    live(ground, &one, None).await;
}

/// Takes the one row through every end of a claim, up to its death.
async fn live(ground: &dyn Ground, one: &Relay, stood: Option<Sequence>) {
    let (again, lapse) = (retry(SECOND), None);
    for end in [Some(release()), lapse.clone(), Some(again), lapse, Some(release()), Some(dead())] {
        let claim = one.claim_one().await;
        assert_eq!(claim.event.sequence, stood, "at attempt {}", claim.attempt);
        match end {
            Some(outcome) => one.end(&[claim], &outcome).await,
            None => ground.clock().advance(LEASE),
        }
        ground.clock().advance(SECOND);
    }
}
