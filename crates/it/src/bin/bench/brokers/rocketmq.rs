//! RocketMQ through its proxy: FIFO, one event per request, the key as message group.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use broker::manner::Manner;
use broker::rocketmq::remoting::Desk;
use broker::rocketmq::v2;
use broker::rocketmq::v2::messaging_service_client::MessagingServiceClient;
use event::{EventId, Sink};
use it::quay::Quay;
use it::quay::rocketmq::{RocketMqQuay, shared};
use it::world::need;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Request, Status};

use super::backlog::{SOURCE, keys};
use super::crew::side_by_side;
use super::letter::Letter;
use super::pier::{AT_ONCE, Loop, Pier};

/// How the old protocol asks a broker for the offsets of a topic.
const STATISTICS: i32 = 202;
const OK: i32 = 20_000;

pub(super) struct Proxy(RocketMqQuay);

impl Proxy {
    pub(super) async fn new() -> Proxy {
        Proxy(shared().await)
    }
}

#[async_trait]
impl Pier for Proxy {
    fn bare_loop(&self) -> &'static str {
        "tonic: 256 requests on the way, an event each; and a table drained beside it"
    }

    async fn topic(&self) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        self.0.make_topic(&topic, "FIFO").await?;
        Ok(topic)
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        self.0.sink(Manner::new(SOURCE)).await
    }

    async fn bare(&self, topic: &str, letters: Vec<Letter>) -> Result<Loop> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.0.address()?))?;
        let name: MetadataValue<Ascii> = format!("bench@{}", EventId::new()).parse()?;
        let stamp = move |mut request: Request<()>| -> Result<_, Status> {
            let headers = request.metadata_mut();
            headers.insert("x-mq-client-id", name.clone());
            headers.insert("x-mq-language", MetadataValue::from_static("RUST"));
            headers.insert("x-mq-client-version", MetadataValue::from_static("1"));
            headers.insert("x-mq-protocol", MetadataValue::from_static("v2"));
            Ok(request)
        };
        let client = MessagingServiceClient::with_interceptor(endpoint.connect().await?, stamp);
        let topic = topic.to_owned();
        let offer = move |letter| {
            let (message, mut client) = (message(&topic, letter), client.clone());
            async move {
                let request = v2::SendMessageRequest { messages: vec![message] };
                let answer = client.send_message(request).await?.into_inner();
                let taken = answer.entries.iter().filter_map(|entry| entry.status.as_ref());
                let taken = taken.filter(|status| status.code == OK).count();
                ensure!(taken == 1, "it was not taken: {answer:?}");
                Ok(())
            }
        };
        Ok(Box::pin(side_by_side(letters, AT_ONCE, offer)))
    }

    fn java(&self, topic: &str, warm: &str, events: usize) -> Option<Command> {
        let server = need("rocketmq");
        let mut java = Command::new(server.detail("java"));
        java.args(["-Xmx512m", "-cp"]).arg(format!("{}/*", server.detail("client")));
        java.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/rocketmq/Producer.java"));
        java.args([&server.socket.to_string(), topic, warm]);
        java.args([events, keys(events), AT_ONCE].map(|number| number.to_string()));
        java.env("POSTBOX_RUN", &server.run);
        Some(java)
    }

    async fn count(&self, topic: &str) -> Result<usize> {
        let address = need("rocketmq").detail("broker").to_owned();
        let patience = Duration::from_secs(20);
        let desk = Desk { address, keys: None, trust: None, patience };
        let told = desk.ask(STATISTICS, &[("topic", topic)], b"").await?;
        // Its keys are objects, which no reader of JSON takes.
        let told = String::from_utf8(told)?;
        let offsets = told.split("\"maxOffset\":").skip(1).map(|rest| {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            digits.parse::<usize>().context("an offset")
        });
        offsets.sum()
    }
}

fn message(topic: &str, letter: Letter) -> v2::Message {
    let Letter { id, key, payload, attributes, media } = letter;
    let mut properties: HashMap<_, _> =
        attributes.into_iter().map(|(name, value)| (format!("CE_{name}"), value)).collect();
    properties.insert("CE_contenttype".to_owned(), media.to_owned());
    let system = v2::SystemProperties {
        tag: Some(Letter::KIND.to_owned()),
        keys: vec![id.clone(), key.clone()],
        message_id: id,
        body_encoding: v2::Encoding::Identity.into(),
        message_type: v2::MessageType::Fifo.into(),
        born_timestamp: Some(SystemTime::now().into()),
        message_group: Some(key),
        ..Default::default()
    };
    let name = topic.to_owned();
    v2::Message {
        topic: Some(v2::Resource { resource_namespace: String::new(), name }),
        user_properties: properties,
        system_properties: Some(system),
        body: payload,
    }
}
