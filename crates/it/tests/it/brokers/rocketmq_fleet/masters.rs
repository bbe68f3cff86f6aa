//! Two masters: one that dies or falls silent holds up its own keys only, and is used again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::manner::Manner;
use broker::rocketmq::Shape;
use event::{Durability, Finding, Refusal};
use futures_util::future::join_all;
use it::quay::rocketmq_fleet::{FIVE, FOUR, Fleet, masters};
use tokio::time::sleep;

use super::{KEYS, LOOK, Way, sink};
use crate::brokers::rocketmq::{PATIENCE, manner};

/// How often all keys are offered before anything happens to a broker.
const TURNS: usize = 10;

#[tokio::test]
async fn a_broker_that_dies_holds_up_only_its_own_keys_and_is_used_again() {
    let fleet = masters(FIVE, &["broker.flushDiskType=SYNC_FLUSH"], &[]).await;
    let both = join_all([true, false].map(|proxy| Way::open_both(&fleet, proxy))).await;
    let mut ways: Vec<Way> = both.into_iter().flatten().collect();

    both_have_events_and_keys_stay_in_their_queues(&fleet, &mut ways).await;
    worth_is(&ways, Durability::BestEffort, "broker-b: ASYNC_FLUSH").await;
    fleet.kill().expect("it dies");
    the_other_goes_on(&mut ways).await;
    fleet.is_known(false).await.expect("the name server lets go of it");
    worth_is(&ways, Durability::Durable, "broker-a: SYNC_FLUSH").await;
    fleet.revive().await.expect("it comes back");
    is_used_again(&fleet, &mut ways).await;
}

#[tokio::test]
async fn in_version_4_a_broker_that_dies_holds_up_only_its_own_keys() {
    let fleet = masters(FOUR, &[], &[]).await;
    let mut ways = Way::open_both(&fleet, false).await;

    both_have_events_and_keys_stay_in_their_queues(&fleet, &mut ways).await;
    fleet.kill().expect("it dies");
    the_other_goes_on(&mut ways).await;
    fleet.is_known(false).await.expect("the name server lets go of it");
    fleet.revive().await.expect("it comes back");
    is_used_again(&fleet, &mut ways).await;
}

#[tokio::test]
async fn a_broker_that_falls_silent_holds_up_only_its_own_keys_and_goes_on() {
    let fleet = masters(FIVE, &[], &[]).await;
    let mut way = Way::open(&fleet, false, Shape::Fifo).await;
    way.sink =
        sink(&fleet, false, Shape::Fifo, Manner { timeout: Duration::from_secs(2), ..manner() });
    way.offer(way.events(TURNS * KEYS)).await;

    fleet.pause(true).expect("it stands still");
    let events = way.events(KEYS);
    let answers = way.sink.publish(&events).await;
    let taken = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!((1..KEYS).contains(&taken), "each has some of the keys: {answers:?}");
    let silent = |refusal: &Refusal| matches!(refusal, Refusal::Unknown(_) | Refusal::Held);
    assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).all(silent), "{answers:?}");
    way.put.extend(events.iter().zip(&answers).filter(|it| it.1.is_ok()).map(|it| it.0.clone()));

    fleet.pause(false).expect("it goes on");
    let left = events.into_iter().zip(answers).filter(|(_, answer)| answer.is_err());
    way.offer(left.map(|(event, _)| event).collect()).await;
    way.take().await;
    way.is_in_order();
    way.feed.close().await;
}

async fn the_other_goes_on(ways: &mut [Way]) {
    join_all(ways.iter_mut().map(async |way| {
        way.tries = (0, 0);
        way.offer(way.events(5 * KEYS)).await;
        way.take().await;
    }))
    .await;
    let fifo = ways.iter().find(|way| way.shape == Shape::Fifo && !way.proxy);
    let normal = ways.iter().find(|way| way.shape == Shape::Normal && !way.proxy);
    let [fifo, normal] = [fifo, normal].map(|way| way.expect("it is among them"));
    assert!(fifo.tries.1 > 0, "no key had its queue there");
    assert!(normal.tries.0 <= 2, "the next try goes to another broker: {:?}", normal.tries);
    ways.iter().filter(|way| way.shape == Shape::Fifo).for_each(Way::is_in_order);
}

async fn is_used_again(fleet: &Fleet, ways: &mut [Way]) {
    join_all(ways.iter_mut().map(async |way| {
        let (until, before) = (Instant::now() + PATIENCE, way.shares(fleet).await[1]);
        while way.shares(fleet).await[1] <= before {
            assert!(Instant::now() < until, "{:?}: it is not used again", way.shape);
            way.offer(way.events(KEYS)).await;
            sleep(LOOK).await;
        }
        way.take().await;
        way.feed.close().await;
    }))
    .await;
}

async fn both_have_events_and_keys_stay_in_their_queues(fleet: &Fleet, ways: &mut [Way]) {
    // A topic that is published to through the proxy has events without it, too.
    let fifo = |proxy| move |way: &Way| way.shape == Shape::Fifo && way.proxy == proxy;
    let through = ways.iter().position(fifo(true));
    let direct = ways.iter().find(|way| fifo(false)(way)).map(|way| Arc::clone(&way.sink));
    join_all(ways.iter_mut().enumerate().map(async |(at, way)| {
        for turn in 0..TURNS {
            let other = direct.clone().filter(|_| through == Some(at) && turn % 2 == 1);
            let own = other.map(|other| std::mem::replace(&mut way.sink, other));
            way.offer(way.events(KEYS)).await;
            way.sink = own.unwrap_or_else(|| Arc::clone(&way.sink));
        }
        // A broker counts what is in a queue some time after its receipt, but before it hands it
        // out.
        way.take().await;
    }))
    .await;
    for way in ways {
        assert_eq!(way.tries, (TURNS, 0), "{:?}", way.shape);
        let shares = way.shares(fleet).await;
        assert!(shares.iter().all(|share| *share > 0), "{:?}: {shares:?}", way.shape);
        assert_eq!(shares.iter().sum::<i64>(), (TURNS * KEYS) as i64);
        if way.shape == Shape::Fifo {
            let queues = fleet.whole().queues(&way.topic).await.expect("both tell").concat();
            assert!(queues.iter().all(|count| count % TURNS as i64 == 0), "{queues:?}");
            way.is_in_order();
        }
    }
}

/// Both kinds of sinks say what receipts are worth: what those of the weakest broker are.
async fn worth_is(ways: &[Way], class: Durability, detail: &str) {
    for proxy in [true, false] {
        let way = ways.iter().find(|way| way.proxy == proxy).expect("there are both");
        let seen = way.sink.worth().await.expect("it tells");
        let told = |finding: &Finding| finding.what == "flush" && finding.detail.contains(detail);
        assert!(seen.findings.iter().any(told), "{seen:?}");
        assert_eq!(seen.durability, class, "{seen:?}");
    }
}
