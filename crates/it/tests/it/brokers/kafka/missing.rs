//! A feed of a topic that is not there: it says which, goes on with the others, and takes in what
//! comes once the topic is made.

use std::time::Duration;

use broker::kafka::KafkaFeed;
use broker::manner::{Manner, Subscription};
use event::{Cause, Code, Event, EventId, Feed, Refusal};
use it::answer::{paid, publish};
use it::quay::Quay;
use it::quay::kafka::{KafkaQuay, shared};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

fn feed(quay: &KafkaQuay, topics: &[&str]) -> KafkaFeed {
    let group = format!("group-{}", EventId::new());
    KafkaFeed::new(&quay.access(), Subscription::new(group, topics)).expect("they are right")
}

async fn bring(quay: &KafkaQuay, topic: &str) -> Event {
    let (sink, event) = (quay.sink(Manner::new("it")).await.unwrap(), paid(topic));
    let bringing = async { while publish(&*sink, &event).await.is_err() {} };
    timeout(PATIENCE, bringing).await.expect("it is taken");
    event
}

/// Waits until the feed says what is wrong.
async fn trouble(feed: &KafkaFeed) -> Cause {
    let asking = async {
        loop {
            match feed.next(Duration::from_secs(1)).await {
                // A busy broker may be out of reach for a moment.
                Ok(None) | Err(Refusal::Down(_)) => {}
                Err(Refusal::Retry(cause, None)) => return cause,
                other => panic!("{other:?}"),
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("it says so")
}

/// Takes the next, whatever else the feed has to say.
async fn come(feed: &KafkaFeed) -> Event {
    let asking = async {
        loop {
            if let Ok(Some(delivery)) = feed.next(Duration::from_secs(1)).await {
                feed.ack(delivery.handle).await.expect("it is in hand");
                return delivery.event.expect("it is an event");
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("it comes")
}

#[tokio::test]
async fn a_feed_of_a_topic_that_is_not_there_says_which_and_takes_it_in_once_it_is_made() {
    let quay = shared().await;
    let (topic, missing) =
        (quay.make(1, &[]).await.unwrap(), format!("missing-{}", EventId::new()));
    let (alone, beside) = (feed(&quay, &[&missing]), feed(&quay, &[&topic, &missing]));
    for feed in [&alone, &beside] {
        let cause = trouble(feed).await;
        assert_eq!(cause.code, Code::TopicMissing, "{cause}");
        assert!(cause.detail.contains(&missing) && cause.detail.contains("make it"), "{cause}");
        assert!(!cause.detail.contains(&topic), "that one is there: {cause}");
    }
    let first = bring(&quay, &topic).await;
    assert_eq!(come(&beside).await, first, "one that is missing keeps no other");
    quay.make_named(&missing, 1, &[]).await.unwrap();
    let second = bring(&quay, &missing).await;
    for feed in [alone, beside] {
        assert_eq!(come(&feed).await, second);
        feed.close().await;
    }
}
