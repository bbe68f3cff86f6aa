//! Where a feed puts what was given up: the topic `<topic>.dead`, with the reason in headers.

use std::sync::Arc;
use std::time::Duration;

use event::{Cause, Refusal};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::BaseRecord;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::kafka::access::Cluster;
use crate::kafka::lag::DEAD;
use crate::kafka::live::Live;
use crate::kafka::refusal::refusal;
use crate::kafka::slots::Slots;
use crate::manner::Subscription;

/// The producer of a feed's dead; made when the first is given up.
pub(super) struct Grave {
    config: ClientConfig,
    cluster: Cluster,
    group: String,
    timeout: Duration,
    live: Mutex<Option<Arc<Live>>>,
}

impl Grave {
    pub(super) fn new(cluster: &Cluster, subscription: &Subscription) -> Grave {
        let mut config = cluster.config(subscription.timeout);
        config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "0");
        config.set("max.in.flight.requests.per.connection", "1");
        config.set("partitioner", "murmur2_random").set("message.max.bytes", "1000000000");
        let Subscription { group, timeout, .. } = subscription.clone();
        let (cluster, live) = (cluster.clone(), Mutex::default());
        Grave { config, cluster, group, timeout, live }
    }

    /// Puts a record there. Only then may it be forgotten where it was.
    pub(super) async fn bury(&self, record: &OwnedMessage, cause: &Cause) -> Result<(), Refusal> {
        let until = Instant::now() + self.timeout;
        let mut live = self.live.lock().await;
        if live.as_ref().is_none_or(|live| !live.is_fit()) {
            *live = Some(Live::connect(&self.config, &self.cluster, false, until).await?);
        }
        let Some(producer) = live.clone() else { return Err(Refusal::Held) };
        let put = self.put(&producer, record, cause, until).await;
        if put.is_err() {
            producer.purge();
            *live = None;
        }
        put
    }

    async fn put(
        &self,
        live: &Arc<Live>,
        record: &OwnedMessage,
        cause: &Cause,
        until: Instant,
    ) -> Result<(), Refusal> {
        let topic = format!("{}{DEAD}", record.topic());
        live.topic(&topic, until).await?;
        let slots = Slots::new(1);
        let mut dead = BaseRecord::with_opaque_to(&topic, slots.out(0));
        dead = dead.headers(self.headers(record, cause));
        if let Some(payload) = record.payload() {
            dead = dead.payload(payload);
        }
        if let Some(key) = record.key() {
            dead = dead.key(key);
        }
        if let Err((error, back)) = live.producer().send(dead) {
            back.delivery_opaque.take_back();
            let code = error.rdkafka_error_code();
            return Err(code.map_or(Refusal::Held, |code| refusal(code, &topic)));
        }
        let answered = timeout_at(until, slots.all()).await.is_ok();
        match slots.told()[0].filter(|_| answered) {
            Some(Ok(_)) => Ok(()),
            Some(Err(code)) => Err(refusal(code, &topic)),
            None => Err(refusal(rdkafka::error::RDKafkaErrorCode::MessageTimedOut, &topic)),
        }
    }

    fn headers(&self, record: &OwnedMessage, cause: &Cause) -> OwnedHeaders {
        let origin = format!("{}/{}/{}", record.topic(), record.partition(), record.offset());
        let own = record.headers().cloned().unwrap_or_default();
        let told = [
            ("postbox_dead_code", cause.code.as_str()),
            ("postbox_dead_detail", &cause.detail),
            ("postbox_dead_group", &self.group),
            ("postbox_dead_origin", &origin),
        ];
        told.into_iter()
            .fold(own, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
    }

    pub(super) async fn close(&self) {
        self.live.lock().await.take();
    }
}
