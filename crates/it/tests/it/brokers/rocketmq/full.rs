//! A proxy that has more to do than it takes says nothing.

use std::time::{Duration, Instant};

use broker::manner::Manner;
use broker::rocketmq::Shape;
use event::{Code, Event, Feed, Refusal, Sink};
use it::quay::rocketmq::{RocketMqQuay, own_with};

use super::{PATIENCE, all, cause_of, feed, manner, topic};

/// Events at once.
const MANY: usize = 200;

/// Offers events, each of a key of its own, until something of them was refused and all were
/// taken, which come; returns what was refused.
async fn offer(quay: &RocketMqQuay, sink: &dyn Sink) -> Vec<Refusal> {
    let topic = topic(quay, "FIFO").await;
    let feed = feed(quay, &topic, true).await;
    let until = Instant::now() + PATIENCE;
    let event = |n: usize| Event::new(&*topic, "T", "{}").key(n.to_string());
    let (mut put, mut left, mut refused) = (0, Vec::new(), Vec::new());
    while refused.is_empty() || !left.is_empty() {
        assert!(Instant::now() < until, "{} are left: {refused:?}", left.len());
        if left.is_empty() {
            left.extend((put..put + MANY).map(event));
            put += MANY;
        }
        let answers = sink.publish(&left).await;
        let again = left.into_iter().zip(answers);
        let again = again.filter_map(|(event, answer)| Some((event, answer.err()?)));
        let why: Vec<Refusal>;
        (left, why) = again.unzip();
        refused.extend(why);
    }
    all(&feed, put).await;
    feed.close().await;
    refused
}

/// It means to say that it is busy, and then does not.
#[tokio::test]
async fn a_proxy_whose_queue_is_full_says_nothing_and_takes_all_in_the_end() {
    let settings =
        ["proxy.grpcProducerThreadPoolNums=1", "proxy.grpcProducerThreadQueueCapacity=1"];
    let quay = own_with(&settings, None).await;
    let manner = Manner { timeout: Duration::from_secs(2), ..manner() };
    let sink = broker::rocketmq::sink(quay.options(manner, Shape::Fifo));
    let sink = sink.expect("the options are right");
    let refused = offer(&quay, &*sink).await;
    let silent = |it: &Refusal| is(it, "unknown", Code::SinkTimeout);
    assert!(refused.iter().any(silent), "{refused:?}");
    let known = |it: &Refusal| silent(it) || *it == Refusal::Held;
    assert!(refused.iter().all(known), "{refused:?}");
}

fn is(refusal: &Refusal, kind: &str, code: Code) -> bool {
    cause_of(&Err(refusal.clone())) == Some((kind, code))
}
