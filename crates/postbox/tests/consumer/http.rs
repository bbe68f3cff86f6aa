//! From the sink over HTTP into the consumer's database.

use std::sync::Arc;
use std::time::Duration;

use broker::http::{Http, HttpFeed, Options, Reception};
use broker::manner::Subscription;
use event::{Refusal, Secret, Sink};
use postbox::{Event, Failure};
use tokio::net::TcpListener;

use super::place::{effect, place};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Serves a feed; returns the feed, and a sink that posts to it.
async fn served() -> (Arc<HttpFeed>, Http) {
    let subscription = Subscription::new("stock", &["order.paid"]);
    let reception = Reception::signed(vec![Secret::new(SECRET)]);
    let feed = Arc::new(HttpFeed::new(subscription, reception).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let app = axum::Router::new().nest_service("/events", feed.router());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let secrets = vec![Secret::new(SECRET)];
    let sink = Options { allow_private: true, secrets, ..Options::new(url, "orders") };
    (feed, Http::new(sink).unwrap())
}

fn event(key: &str) -> Event {
    Event::new("order.paid", "OrderPaid", r#"{"total": 42}"#).key(key)
}

#[tokio::test]
async fn a_receipt_means_that_the_effect_is_committed_and_a_copy_has_none() {
    let (place, (feed, sink)) = (place().await, served().await);
    let events: Vec<Event> = (0..20).map(|n| event(&format!("key-{}", n % 5))).collect();
    let consumer = place.consumer(feed);
    let publishing = async {
        for _ in 0..2 {
            let answers = sink.publish(&events).await;
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            assert_eq!(place.effects().await.len(), events.len());
        }
    };
    let run = consumer.run(
        |tx, event| {
            Box::pin(async move {
                effect!(tx, event);
                Ok(())
            })
        },
        publishing,
    );
    run.await.unwrap();
}

#[tokio::test]
async fn a_failure_is_a_retry_for_the_relay_and_what_never_works_is_a_reject() {
    let (place, (feed, sink)) = (place().await, served().await);
    let publishing = async {
        let answers = sink.publish(&[event("later"), event("never")]).await;
        let Err(Refusal::Retry(_, Some(asked))) = &answers[0] else { panic!("{answers:?}") };
        assert!(*asked <= Duration::from_secs(1));
        let Err(Refusal::Reject(cause)) = &answers[1] else { panic!("{answers:?}") };
        assert!(cause.detail.contains("unknown item"), "{cause}");
    };
    let run = place.consumer(feed).run(
        |_, event| {
            let later = event.key.as_deref() == Some("later");
            Box::pin(async move {
                match later {
                    true => Err(Failure::later("no stock")),
                    false => Err(Failure::never("unknown item")),
                }
            })
        },
        publishing,
    );
    run.await.unwrap();
    assert_eq!(place.effects().await, [""; 0]);
}

#[tokio::test]
async fn after_a_stop_the_relay_is_asked_to_come_again() {
    let (place, (feed, sink)) = (place().await, served().await);
    let consumer = place.consumer(feed);
    consumer.run(|_, _| Box::pin(async { Ok(()) }), std::future::ready(())).await.unwrap();
    let answers = sink.publish(&[event("a")]).await;
    assert!(matches!(&answers[..], [Err(Refusal::Retry(..))]), "{answers:?}");
}
