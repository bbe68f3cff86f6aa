//! What a cluster gets at once, tried with the library's own mock of one, which can be made slow
//! and can refuse.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event::{Answer, Code, Event, Refusal, Sink};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::{Instant, timeout};

use super::{Access, Kafka, Options};
use crate::manner::{Manner, Naming};

const PATIENCE: Duration = Duration::from_secs(120);

struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
    sink: Kafka,
    url: String,
}

fn mock(concurrency: usize) -> Mock {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("orders", 2, 1).unwrap();
    let url = format!("kafka://{}", cluster.bootstrap_servers());
    let sink = Kafka::new(Options {
        access: Access::open(&url),
        topic: Naming::default(),
        compression: "none".to_owned(),
        manner: Manner { concurrency, timeout: PATIENCE / 4, ..Manner::new("orders") },
    });
    Mock { cluster, sink: sink.unwrap(), url }
}

impl Mock {
    fn width(&self) -> usize {
        self.sink.manner.gates.of(&self.url, usize::MAX).width()
    }

    fn answers_after(&self, delay: Duration) {
        self.cluster.broker_round_trip_time(1, delay).unwrap();
    }

    /// Waits until places are taken; returns how many. All that goes was handed over by then.
    async fn out(&self) -> usize {
        let gate = self.sink.manner.gates.of(&self.url, usize::MAX);
        while gate.out() == 0 {
            tokio::task::yield_now().await;
        }
        gate.out()
    }

    /// Stops the relay once events are out.
    async fn stop_while_out(&self) {
        self.out().await;
        self.sink.manner.stop.cancel();
    }

    /// Makes a topic known, so that it is not looked for any more.
    async fn warm(&self, topic: &str) {
        let warm = soon(self.sink.publish(&[Event::new(topic, "T", "{}")])).await;
        assert!(warm[0].is_ok(), "{warm:?}");
    }

    /// Ends the producer, as an event that is refused does.
    async fn give_up(&self) {
        let live = self.sink.live.lock().await;
        let fatal = KafkaError::Global(RDKafkaErrorCode::Fatal);
        live.as_ref().expect("it was warm").watch().error(fatal, "as the test says");
    }

    /// Lets a topic be missing.
    fn misses(&self, topic: &str) {
        let missing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        self.cluster.topic_error(topic, missing).unwrap();
    }

    fn refuses_once(&self, error: RDKafkaRespErr) {
        self.cluster.request_errors(RDKafkaApiKey::Produce, &[error]);
    }

    /// Publishes until its width is so.
    async fn until(&self, is: impl Fn(usize) -> bool) {
        let publishing = async {
            while !is(self.width()) {
                let answers = self.sink.publish(&events(1000)).await;
                assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            }
        };
        soon(publishing).await;
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it comes to an end")
}

/// Tells whether an answer says that a topic is not there.
fn is_missing(answer: &Answer) -> bool {
    matches!(answer, Err(Refusal::Retry(cause, _)) if cause.code == Code::TopicMissing)
}

fn events(count: usize) -> Vec<Event> {
    (0..count).map(|n| Event::new("orders", "T", "{}").key(format!("{}", n % 7))).collect()
}

#[tokio::test]
async fn a_cluster_that_answers_late_gets_fewer_at_once_and_more_when_it_is_quick_again() {
    let mock = mock(10_000);
    assert_eq!(mock.width(), 4);
    mock.until(|width| width > 8).await;
    mock.answers_after(Duration::from_millis(500));
    mock.until(|width| width <= 4).await;
    mock.answers_after(Duration::ZERO);
    mock.until(|width| width > 8).await;
}

#[tokio::test]
async fn a_cluster_that_refuses_gets_half_and_more_when_it_takes_again() {
    let mock = mock(10_000);
    mock.refuses_once(RDKafkaRespErr::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED);
    let answers = soon(mock.sink.publish(&events(10))).await;
    let busy = |answer: &Answer| match answer {
        Err(Refusal::Retry(cause, _)) => cause.code == Code::SinkBusy,
        _ => false,
    };
    assert!(answers.iter().any(busy), "{answers:?}");
    assert_eq!(mock.width(), 2);
    mock.until(|width| width > 4).await;
}

#[tokio::test]
async fn what_has_no_place_goes_after_the_answers_and_in_order() {
    let (mock, trip) = (mock(10_000), Duration::from_millis(200));
    mock.warm("orders").await;
    mock.answers_after(trip);
    let began = Instant::now();
    let answers = soon(mock.sink.publish(&events(1000))).await;
    let (took, waves) = (began.elapsed(), 4);
    // A wave is a request for each partition at the least, one after another.
    assert!(took >= trip * 2 * waves, "there was room for 256 at once: {took:?}");
    let mut offsets = vec![Vec::new(); 2];
    for answer in &answers {
        let place = answer.as_ref().unwrap().broker_id.as_ref().unwrap();
        let (partition, offset) = place.strip_prefix("orders/").unwrap().split_once('/').unwrap();
        let partition: usize = partition.parse().unwrap();
        offsets[partition].push(offset.parse::<i64>().unwrap());
    }
    assert!(offsets.iter().all(|offsets| offsets.is_sorted()), "{offsets:?}");
}

#[tokio::test]
async fn after_a_stop_nothing_is_handed_over_even_if_its_topic_was_just_found() {
    let mock = mock(10_000);
    mock.cluster.create_topic("other", 1, 1).unwrap();
    mock.warm("orders").await;
    mock.answers_after(Duration::from_millis(200));
    let batch = [Event::new("orders", "T", "{}"), Event::new("other", "T", "{}")];
    // A publish is asked first, and so looks for the topic by then.
    let stop = async { mock.sink.manner.stop.cancel() };
    let (answers, ()) = soon(async { tokio::join!(mock.sink.publish(&batch), stop) }).await;
    assert_eq!(answers, vec![Err(Refusal::Held); 2]);
}

#[tokio::test]
async fn a_producer_that_ends_while_somebody_looks_does_not_mean_that_the_cluster_is_down() {
    let mock = mock(10_000);
    mock.warm("orders").await;
    mock.answers_after(Duration::from_millis(200));
    let batch = [Event::new("other", "T", "{}")];
    let (answers, ()) =
        soon(async { tokio::join!(mock.sink.publish(&batch), mock.give_up()) }).await;
    assert_eq!(answers, [Err(Refusal::Held)]);
    mock.warm("orders").await;
    let (probed, ()) = soon(async { tokio::join!(mock.sink.probe(), mock.give_up()) }).await;
    assert_eq!(probed, Ok(()), "another producer asks");
}

#[tokio::test]
async fn whoever_looks_for_topics_has_no_place_meanwhile() {
    let mock = mock(10_000);
    mock.misses("gone");
    mock.warm("orders").await;
    let batch = vec![Event::new("gone", "T", "{}"); 1000];
    let answers = soon(async {
        tokio::select! {
            biased;
            answers = mock.sink.publish(&batch) => answers,
            out = mock.out() => panic!("{out} places are taken, and nothing can go"),
        }
    });
    assert!(answers.await.iter().all(is_missing));
}

#[tokio::test]
async fn a_topic_that_is_missing_holds_what_follows_it_and_nothing_before_it() {
    let mock = mock(10_000);
    mock.misses("gone");
    let of = |topic: &str, key: &str| Event::new(topic, "T", "{}").key(key);
    let batch = [of("orders", "a"), of("gone", "a"), of("orders", "a"), of("orders", "b")];
    let answers = soon(mock.sink.publish(&batch)).await;
    assert!(answers[0].is_ok() && is_missing(&answers[1]) && answers[3].is_ok(), "{answers:?}");
    assert_eq!(answers[2], Err(Refusal::Held));
}

#[tokio::test]
async fn topics_that_are_missing_are_looked_for_together_and_no_wave_waits_for_them() {
    let mock = mock(10_000);
    let gone: Vec<String> = (0..16).map(|n| format!("gone-{n}")).collect();
    gone.iter().for_each(|topic| mock.misses(topic));
    let all = gone.iter().map(String::as_str).chain(["orders"]);
    let batch: Vec<Event> = all.map(|topic| Event::new(topic, "T", "{}")).collect();
    let began = Instant::now();
    let answers = soon(mock.sink.publish(&batch)).await;
    let (took, one) = (began.elapsed(), Duration::from_millis(800));
    assert!(answers[..16].iter().all(is_missing) && answers[16].is_ok(), "{answers:?}");
    assert!((one..one * 16).contains(&took), "a topic that is missing gets a second: {took:?}");
    let waited = mock.sink.pace.least().expect("an answer came");
    assert!(waited + one <= took, "{waited:?} of {took:?}");
}

#[tokio::test]
async fn an_event_that_is_too_large_for_its_topic_does_not_go_and_holds_its_key() {
    let mock = mock(10_000);
    mock.sink.topics.tell("orders", Some(100_000), Instant::now());
    let of = |key: &str, bytes: usize| {
        Event::new("orders", "T", format!("\"{}\"", "x".repeat(bytes))).key(key)
    };
    let batch = [of("a", 99_000), of("a", 100_000), of("a", 1), of("b", 1)];
    let answers = soon(mock.sink.publish(&batch)).await;
    let Err(Refusal::Reject(cause)) = &answers[1] else { panic!("{answers:?}") };
    assert_eq!(cause.code, Code::TooLarge);
    assert!(answers[0].is_ok() && answers[3].is_ok(), "{answers:?}");
    assert_eq!(answers[2], Err(Refusal::Held));
}

#[tokio::test]
async fn events_that_wait_for_another_topic_of_their_key_have_no_place_meanwhile() {
    let mock = mock(10_000);
    mock.cluster.create_topic("other", 1, 1).unwrap();
    mock.warm("orders").await;
    mock.warm("other").await;
    mock.answers_after(Duration::from_millis(200));
    let of = |n: usize| Event::new(if n == 0 { "orders" } else { "other" }, "T", "{}").key("a");
    let batch: Vec<Event> = (0..256).map(of).collect();
    let (answers, out) = soon(async { tokio::join!(mock.sink.publish(&batch), mock.out()) }).await;
    assert_eq!(out, 1, "one event is out");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn batches_become_smaller_only_after_each_event_was_tried_by_itself() {
    for stopped in [true, false] {
        let mock = mock(10_000);
        let whole = mock.sink.width.load(Ordering::Relaxed);
        mock.warm("orders").await;
        mock.answers_after(Duration::from_millis(200));
        mock.refuses_once(RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
        let stop = async {
            if stopped {
                mock.stop_while_out().await;
            }
        };
        let batch = events(1);
        let (answers, ()) = soon(async { tokio::join!(mock.sink.publish(&batch), stop) }).await;
        assert_eq!(answers[0].is_ok(), !stopped, "{answers:?}");
        let narrower = mock.sink.width.load(Ordering::Relaxed) < whole;
        assert_eq!(narrower, !stopped);
    }
}

#[tokio::test]
async fn what_had_no_place_is_put_back_when_those_before_it_were_refused() {
    let mock = mock(16);
    mock.refuses_once(RDKafkaRespErr::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED);
    let answers = soon(mock.sink.publish(&events(100))).await;
    assert!(answers[..16].iter().any(|answer| *answer != Err(Refusal::Held)), "{answers:?}");
    assert_eq!(answers[16..], vec![Err(Refusal::Held); 84]);
    let answers = soon(mock.sink.publish(&events(100))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}
