//! What the code relies on, and only the real server can tell.

use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::connection::State;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use futures_util::StreamExt;
use it::quay::Quay;
use it::quay::nats::{NatsQuay, own, shared, stream_of};
use tokio::time::{sleep, timeout};

/// Makes a consumer whose leases are soon over.
async fn consumer(quay: &NatsQuay, topic: &str) -> PullConsumer {
    let jetstream = quay.jetstream().await.unwrap();
    let config = Config {
        durable_name: Some("group".to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_millis(500),
        ..Config::default()
    };
    jetstream.create_consumer_on_stream(config, stream_of(topic)).await.unwrap()
}

async fn one(consumer: &PullConsumer) -> Option<async_nats::jetstream::Message> {
    let pull = consumer.batch().max_messages(1).expires(Duration::from_secs(3));
    let mut pull = pull.messages().await.unwrap();
    pull.next().await.map(|message| message.unwrap())
}

/// Why a feed never tells JetStream anything of a delivery whose lease is over.
#[tokio::test]
async fn jetstream_takes_an_ack_from_a_holder_whose_time_is_over() {
    let quay = shared().await;
    let topic = quay.topic("group").await.unwrap();
    quay.foreign(&topic, b"hello").await.unwrap();
    let consumer = consumer(&quay, &topic).await;
    let late = one(&consumer).await.unwrap();
    let holder = one(&consumer).await.unwrap();
    assert_eq!((late.info().unwrap().delivered, holder.info().unwrap().delivered), (1, 2));
    late.double_ack().await.unwrap();
    assert_eq!(one(&consumer).await.map(|it| it.payload.clone()), None, "the other's was ended");
}

/// Why a connection of ours lives once: left alone, the library writes what it was given while
/// there was no server, after it was answered for.
#[tokio::test]
async fn the_library_writes_later_what_it_could_not_write_unless_it_can_reconnect_nowhere() {
    let quay = own().await;
    for only_once in [false, true] {
        let topic = quay.topic("group").await.unwrap();
        let (_, rest) = quay.url.split_once("://").unwrap();
        let (user, address) = rest.split_once('@').unwrap();
        let (user, password) = user.split_once(':').unwrap();
        let options = ConnectOptions::new().user_and_password(user.into(), password.into());
        let options = options.max_reconnects(only_once.then_some(1));
        let client = options.connect(address).await.unwrap();
        if only_once {
            client.set_server_pool("nats://127.0.0.1:0").await.unwrap();
        }
        quay.pause(true).await.unwrap();
        // Written to nobody: the server sleeps, and is killed before it wakes.
        let publishing = client.request(topic.clone(), "late".into());
        let answer = timeout(Duration::from_millis(200), publishing).await;
        assert!(answer.is_err(), "nobody answers");
        quay.restart().await.unwrap();
        let queued = client.publish(topic.clone(), "later".into()).await;
        let lost = async {
            while client.connection_state() != State::Disconnected || queued.is_ok() {
                if stored(&quay, &topic).await > 0 {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
                if only_once && client.publish(topic.clone(), "later".into()).await.is_err() {
                    break;
                }
            }
        };
        timeout(Duration::from_secs(20), lost).await.expect("it is written or given up");
        assert_eq!(stored(&quay, &topic).await > 0, !only_once, "only once: {only_once}");
    }
}

async fn stored(quay: &NatsQuay, topic: &str) -> u64 {
    let jetstream = quay.jetstream().await.unwrap();
    let stream = jetstream.get_stream(stream_of(topic)).await.unwrap();
    stream.cached_info().state.messages
}
