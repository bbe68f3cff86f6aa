//! RabbitMQ: one channel, confirmed, mandatory and persistent, into a quorum queue.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use broker::manner::Manner;
use event::Sink;
use it::quay::Quay;
use it::quay::rabbitmq::{RabbitMqQuay, shared};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

use super::backlog::SOURCE;
use super::letter::Letter;
use super::pier::{AT_ONCE, Loop, Pier};

/// Whose queue takes the events.
const GROUP: &str = "bench";
const PERSISTENT: u8 = 2;

pub(super) struct Exchange(RabbitMqQuay);

impl Exchange {
    pub(super) async fn new() -> Exchange {
        Exchange(shared().await)
    }

    async fn connect(&self) -> Result<(Connection, Channel)> {
        let connection = Connection::connect(&self.0.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }
}

#[async_trait]
impl Pier for Exchange {
    fn bare_loop(&self) -> &'static str {
        "lapin: one channel, 256 unconfirmed; and a table drained beside it"
    }

    async fn topic(&self) -> Result<String> {
        self.0.topic(GROUP).await
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        self.0.sink(Manner::new(SOURCE)).await
    }

    async fn bare(&self, topic: &str, letters: Vec<Letter>) -> Result<Loop> {
        let (connection, channel) = self.connect().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let (exchange, topic) = (self.0.exchange.clone(), topic.to_owned());
        Ok(Box::pin(async move {
            publish(&channel, &exchange, &topic, letters).await?;
            Ok(connection.close(200, "done".into()).await?)
        }))
    }

    async fn count(&self, topic: &str) -> Result<usize> {
        let (connection, channel) = self.connect().await?;
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = channel.queue_declare(queue(topic).into(), options, FieldTable::default());
        let count = queue.await?.message_count();
        connection.close(200, "done".into()).await?;
        Ok(usize::try_from(count)?)
    }

    async fn clear(&self, topic: &str) -> Result<()> {
        let (connection, channel) = self.connect().await?;
        channel.queue_delete(queue(topic).into(), QueueDeleteOptions::default()).await?;
        Ok(connection.close(200, "done".into()).await?)
    }
}

fn queue(topic: &str) -> String {
    format!("{GROUP}.{topic}")
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    topic: &str,
    letters: Vec<Letter>,
) -> Result<()> {
    let mandatory = BasicPublishOptions { mandatory: true, immediate: false };
    let mut out = VecDeque::with_capacity(AT_ONCE);
    for letter in letters {
        if out.len() == AT_ONCE
            && let Some(first) = out.pop_front()
        {
            confirmed(first).await?;
        }
        let (exchange, topic) = (exchange.into(), topic.into());
        let (payload, properties) = (&letter.payload, properties(&letter));
        let publishing = channel.basic_publish(exchange, topic, mandatory, payload, properties);
        out.push_back(publishing.await?);
    }
    for last in out {
        confirmed(last).await?;
    }
    Ok(())
}

async fn confirmed(confirmation: impl Future<Output = lapin::Result<Confirmation>>) -> Result<()> {
    let confirmation = confirmation.await?;
    let taken = matches!(confirmation, Confirmation::Ack(None));
    ensure!(taken, "it was not taken: {confirmation:?}");
    Ok(())
}

fn properties(letter: &Letter) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in &letter.attributes {
        let name = format!("cloudEvents_{name}");
        headers.insert(name.into(), AMQPValue::LongString(value.as_str().into()));
    }
    BasicProperties::default()
        .with_content_type(letter.media.into())
        .with_delivery_mode(PERSISTENT)
        .with_message_id(letter.id.as_str().into())
        .with_type(Letter::KIND.into())
        .with_headers(headers)
}
