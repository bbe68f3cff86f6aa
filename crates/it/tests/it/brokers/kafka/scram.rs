//! Who shows a password to Kafka without showing it, by SCRAM: over a way that is not encrypted.

use std::time::Duration;

use broker::kafka::{Access, Kafka, KafkaFeed};
use broker::manner::{Manner, Subscription};
use event::{Code, Feed, Gauge, Refusal};
use it::answer::{cause, paid, publish};
use it::quay::kafka::{levels, shared};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn by_each_mechanism_events_go_out_and_come_in_and_both_levels_are_told() {
    let quay = shared().await;
    for way in quay.scrams() {
        let topic = quay.make(1, &[]).await.unwrap();
        let event = paid(&topic);
        let sink = Kafka::new(quay.options(way.clone(), Manner::new("it"))).unwrap();
        publish(&sink, &event).await.unwrap();
        let feed = KafkaFeed::new(&way, Subscription::new(&topic, &[&topic])).unwrap();
        let come = feed.next(PATIENCE).await.unwrap().expect("it comes");
        assert_eq!(come.event.as_ref(), Ok(&event));
        feed.ack(come.handle).await.unwrap();
        feed.close().await;
        let told = levels(&sink, &[Gauge::Lag, Gauge::Disk]).await.unwrap();
        assert!(told[0] == 0.0 && told[1] > 0.0, "{told:?}");
    }
}

#[tokio::test]
async fn the_password_of_another_mechanism_is_refused_with_what_to_do_and_is_told_to_nobody() {
    let quay = shared().await;
    let [first, second] = quay.scrams();
    for (way, other) in [(&first, &second), (&second, &first), (&first, &quay.guarded("canary"))] {
        let wrong = Access { user: other.user.clone(), ..way.clone() };
        let (_, password) = wrong.user.clone().unwrap();
        let sink = Kafka::new(quay.options(wrong.clone(), Manner::new("it"))).unwrap();
        let (kind, cause) = cause(publish(&sink, &paid("orders")).await);
        assert_eq!((kind, cause.code), ("down", Code::AuthRefused), "{cause}");
        let feed = KafkaFeed::new(&wrong, Subscription::new("g", &["orders"])).unwrap();
        let refused = timeout(PATIENCE, feed.next(PATIENCE)).await.unwrap();
        let Err(Refusal::Down(of_feed)) = refused else { panic!("{refused:?}") };
        assert_eq!(of_feed.code, Code::AuthRefused, "{of_feed}");
        for told in [cause.detail, of_feed.detail] {
            assert!(told.contains("`user`, `password` and `mechanism`"), "{told}");
            assert!(!told.contains(password.reveal()), "{told}");
        }
    }
}
