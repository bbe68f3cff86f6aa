//! Kafka: librdkafka's own pipeline, idempotent and acknowledged by all replicas in sync.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use broker::manner::Manner;
use event::Sink;
use it::quay::Quay;
use it::quay::kafka::{KafkaQuay, shared};
use it::world::need;
use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use tokio::task::spawn_blocking;

use super::backlog::{SOURCE, keys};
use super::letter::Letter;
use super::pier::{Loop, Pier};

const PARTITIONS: i32 = 4;
/// How long the cluster may take for an answer, or for all of them.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Cluster(KafkaQuay);

impl Cluster {
    pub(super) async fn new() -> Cluster {
        Cluster(shared().await)
    }
}

#[async_trait]
impl Pier for Cluster {
    fn bare_loop(&self) -> &'static str {
        "rdkafka: idempotent, acks=all, 5 requests on the way; and a table drained beside it"
    }

    async fn topic(&self) -> Result<String> {
        self.0.make(PARTITIONS, &[]).await
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        // As the product has it by default.
        self.0.sink(Manner { concurrency: 10_000, ..Manner::new(SOURCE) }).await
    }

    async fn bare(&self, topic: &str, letters: Vec<Letter>) -> Result<Loop> {
        let mut config = self.0.config();
        for (name, value) in [
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
        ] {
            config.set(name, value);
        }
        let producer: ThreadedProducer<Taken> = config.create_with_context(Taken::default())?;
        let topic = topic.to_owned();
        let publishing = move || publish(&producer, &topic, letters);
        Ok(Box::pin(async move { spawn_blocking(publishing).await? }))
    }

    fn java(&self, topic: &str, warm: &str, events: usize) -> Option<Command> {
        let server = need("kafka");
        let mut java = Command::new(server.detail("java"));
        java.args(["-Xmx512m", "-cp", server.detail("reader")]);
        java.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/kafka/Producer.java"));
        java.args([self.0.url.trim_start_matches("kafka://"), topic, warm]);
        java.args([events, keys(events)].map(|number| number.to_string()));
        java.env("POSTBOX_RUN", &server.run);
        Some(java)
    }

    async fn count(&self, topic: &str) -> Result<usize> {
        let (config, topic) = (self.0.config(), topic.to_owned());
        spawn_blocking(move || {
            let consumer: BaseConsumer = config.create()?;
            let mut count = 0;
            for partition in 0..PARTITIONS {
                let (first, next) = consumer.fetch_watermarks(&topic, partition, PATIENCE)?;
                count += usize::try_from(next - first)?;
            }
            Ok(count)
        })
        .await?
    }
}

fn headers(letter: &Letter) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(letter.attributes.len() + 1);
    let headers = letter.attributes.iter().fold(headers, |headers, (name, value)| {
        headers.insert(Header { key: &format!("ce_{name}"), value: Some(value) })
    });
    headers.insert(Header { key: "content-type", value: Some(letter.media) })
}

/// Hands all to the library, as fast as it takes it, and waits for the last answer.
fn publish(producer: &ThreadedProducer<Taken>, topic: &str, letters: Vec<Letter>) -> Result<()> {
    let count = letters.len();
    for letter in letters {
        let record = BaseRecord::to(topic).key(&*letter.key).payload(&letter.payload[..]);
        let mut record = record.headers(headers(&letter));
        while let Err((error, back)) = producer.send(record) {
            let full = error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            ensure!(full, "the client does not take it: {error}");
            sleep(Duration::from_millis(1));
            record = back;
        }
    }
    producer.flush(PATIENCE)?;
    let taken = producer.context().0.load(Ordering::SeqCst);
    ensure!(taken == count, "{taken} of {count} were acknowledged");
    Ok(())
}

/// Counts what was acknowledged.
#[derive(Default)]
struct Taken(AtomicUsize);

impl ClientContext for Taken {}

impl ProducerContext for Taken {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}
