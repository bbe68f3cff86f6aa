//! What a lane remembers of the rows of others.

use super::super::glance::SHARD;
use super::*;
use event::{Millis, Pattern};

fn want() -> Want {
    Want { limit: 10, bytes: 1 << 20, lease: LONG }
}

#[tokio::test]
async fn a_lane_passes_the_rows_of_others_once_and_finds_its_own_that_come_between() {
    let place = place().await;
    let pattern: Pattern = "a.*".parse().unwrap();
    let topics = Topics::of(vec![(pattern, true)]);
    let lane = place.outbox.lane(Lane { topics, order: Order::Hold });
    let now = Millis::now();
    let ago = |seconds: i64| Some(Millis(now.0 - seconds * 1000));
    let other = || Event::new("b.x", "T", "{}");
    place.outbox.put(&[other(), other(), other()], ago(10)).await.unwrap();

    assert_eq!(lane.claim(&want()).await.unwrap(), []);
    let passed = place.outbox.base.holding().desks[0].part(SHARD).passed;
    let behind = (Millis(now.0 - 10_000), 3);
    assert_eq!((passed.due, passed.number), behind, "the next claim starts behind them");

    let (early, late) = (Event::new("a.x", "T", "{}"), Event::new("a.x", "T", "{}"));
    place.outbox.put(std::slice::from_ref(&late), ago(5)).await.unwrap();
    place.outbox.put(&[other()], ago(20)).await.unwrap();
    place.outbox.put(std::slice::from_ref(&early), ago(20)).await.unwrap();
    let claims = lane.claim(&want()).await.unwrap();
    let ids: Vec<_> = claims.iter().map(|claim| claim.event.id).collect();
    assert_eq!(ids, [early.id, late.id], "what is due first comes first");
}
