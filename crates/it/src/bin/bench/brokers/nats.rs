//! NATS JetStream: publishes on the way, each acknowledged by the stream.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Result;
use async_nats::HeaderMap;
use async_trait::async_trait;
use broker::manner::Manner;
use event::Sink;
use it::quay::Quay;
use it::quay::nats::{NatsQuay, shared, stream_of};

use super::backlog::SOURCE;
use super::letter::Letter;
use super::pier::{AT_ONCE, Loop, Pier};

pub(super) struct JetStream(NatsQuay);

impl JetStream {
    pub(super) async fn new() -> JetStream {
        JetStream(shared().await)
    }
}

#[async_trait]
impl Pier for JetStream {
    fn bare_loop(&self) -> &'static str {
        "async-nats: 256 publishes on the way, each acknowledged; and a table drained beside it"
    }

    async fn topic(&self) -> Result<String> {
        self.0.make(|_| {}).await
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        self.0.sink(Manner::new(SOURCE)).await
    }

    async fn bare(&self, topic: &str, letters: Vec<Letter>) -> Result<Loop> {
        let (context, topic) = (self.0.jetstream().await?, topic.to_owned());
        Ok(Box::pin(async move {
            let mut out = VecDeque::with_capacity(AT_ONCE);
            for letter in letters {
                if out.len() == AT_ONCE
                    && let Some(first) = out.pop_front()
                {
                    IntoFuture::into_future(first).await?;
                }
                let (topic, headers) = (topic.clone(), headers(&letter));
                let publishing = context.publish_with_headers(topic, headers, letter.payload);
                out.push_back(publishing.await?);
            }
            for last in out {
                last.await?;
            }
            Ok(())
        }))
    }

    async fn count(&self, topic: &str) -> Result<usize> {
        let context = self.0.jetstream().await?;
        let mut stream = context.get_stream(stream_of(topic)).await?;
        Ok(usize::try_from(stream.info().await?.state.messages)?)
    }

    async fn clear(&self, topic: &str) -> Result<()> {
        self.0.jetstream().await?.delete_stream(stream_of(topic)).await?;
        Ok(())
    }
}

fn headers(letter: &Letter) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &letter.attributes {
        headers.insert(format!("ce-{name}"), value.as_str());
    }
    headers.insert("content-type", letter.media);
    headers.insert(async_nats::header::NATS_MESSAGE_ID, letter.id.as_str());
    headers
}
