//! Redis Streams: `XADD` in pipelines on one connection, several pipelines on the way.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use broker::manner::Manner;
use event::Sink;
use futures_util::{StreamExt, TryStreamExt, stream};
use it::quay::Quay;
use it::quay::redis::{RedisQuay, shared};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, cmd};

use super::backlog::SOURCE;
use super::letter::Letter;
use super::pier::{AT_ONCE, Loop, Pier};

/// How many pipelines are on the way; together they hold as many events as elsewhere.
const PIPELINES: usize = 4;

pub(super) struct Streams {
    quay: RedisQuay,
    client: MultiplexedConnection,
}

impl Streams {
    pub(super) async fn new() -> Result<Streams> {
        let quay = shared().await;
        let client = quay.client().await?;
        Ok(Streams { quay, client })
    }
}

#[async_trait]
impl Pier for Streams {
    fn bare_loop(&self) -> &'static str {
        "redis: pipelines of 64 XADD, 4 of them on the way; and a table drained beside it"
    }

    async fn topic(&self) -> Result<String> {
        self.quay.topic("").await
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        self.quay.sink(Manner::new(SOURCE)).await
    }

    async fn bare(&self, topic: &str, letters: Vec<Letter>) -> Result<Loop> {
        let (client, topic) = (self.quay.client().await?, topic.to_owned());
        Ok(Box::pin(async move {
            let mut letters = letters.into_iter();
            let parts = std::iter::from_fn(|| {
                let part: Vec<_> = letters.by_ref().take(AT_ONCE / PIPELINES).collect();
                (!part.is_empty()).then_some(part)
            });
            let asking = stream::iter(parts).map(|part| {
                let (pipeline, mut client) = (pipeline(&topic, &part), client.clone());
                async move { pipeline.query_async::<Vec<String>>(&mut client).await }
            });
            asking.buffered(PIPELINES).try_for_each(async |_| Ok(())).await?;
            Ok(())
        }))
    }

    async fn count(&self, topic: &str) -> Result<usize> {
        Ok(cmd("XLEN").arg(topic).query_async(&mut self.client.clone()).await?)
    }

    async fn clear(&self, topic: &str) -> Result<()> {
        Ok(cmd("UNLINK").arg(topic).query_async(&mut self.client.clone()).await?)
    }
}

fn pipeline(topic: &str, letters: &[Letter]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(letters.len());
    for letter in letters {
        let adding = pipeline.cmd("XADD").arg(topic).arg("*");
        for (name, value) in &letter.attributes {
            adding.arg(name).arg(value);
        }
        adding.arg("datacontenttype").arg(letter.media).arg("data").arg(&letter.payload[..]);
    }
    pipeline
}
