//! Three nodes of RabbitMQ, and quorum queues of three members.
//!
//! Beside each node stands a registry of names of its own, which has to be told of the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use broker::manner::{Manner, Subscription};
use event::{EventId, Feed, Sink};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{LEADS, STAYS, Three};
use crate::quay::Quay;
use crate::quay::rabbitmq::{RabbitMqQuay, own_with};

/// How long a registry may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

const NAMES: [&str; 3] = ["first", "second", "third"];

/// Three nodes.
pub struct RabbitMqThree {
    nodes: [RabbitMqQuay; 3],
    /// A registry forgets whom it was told of by a connection that ends.
    told: [Vec<TcpStream>; 3],
}

/// Starts three nodes and joins them.
pub async fn rabbitmq() -> Result<RabbitMqThree> {
    let node = async |name: &str| {
        own_with(&["-env", "RABBITMQ_NODENAME", &format!("{name}@localhost")]).await
    };
    let [first, second, third] = NAMES;
    let (first, mut second, mut third) = tokio::join!(node(first), node(second), node(third));
    for node in [&mut second, &mut third] {
        node.exchange.clone_from(&first.exchange);
    }
    let mut three = RabbitMqThree { nodes: [first, second, third], told: Default::default() };
    for which in 0..NAMES.len() {
        three.told[which] = three.tell(which).await?;
    }
    let join = format!("rabbit_db_cluster join ['{}@localhost',disc]", NAMES[STAYS]);
    for node in &three.nodes[1..] {
        for function in ["rabbit stop", &join, "rabbit start"] {
            let said = node.call(function)?;
            ensure!(said.trim() == "ok", "{function}: {said}");
        }
    }
    Ok(three)
}

impl RabbitMqThree {
    /// Tells the registry of a node of the others.
    async fn tell(&self, which: usize) -> Result<Vec<TcpStream>> {
        let registry = self.nodes[which].among_nodes()?.registry;
        let mut told = Vec::new();
        for (other, name) in NAMES.iter().enumerate().filter(|(other, _)| *other != which) {
            told.push(tell(registry, name, self.nodes[other].among_nodes()?.peers).await?);
        }
        Ok(told)
    }
}

/// Tells a registry where a node is (ALIVE2_REQ of Erlang's distribution protocol).
async fn tell(registry: u16, name: &str, peers: u16) -> Result<TcpStream> {
    let began = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", registry)).await {
            Ok(stream) => break stream,
            Err(error) => ensure!(began.elapsed() < PATIENCE, "no registry: {error}"),
        }
        sleep(LOOK).await;
    };
    let (port, length) = (peers.to_be_bytes(), u16::try_from(name.len())?.to_be_bytes());
    let (normal, tcp, versions, nothing) = (77, 0, [0, 6, 0, 5], [0, 0]);
    let head = [120, port[0], port[1], normal, tcp];
    let asked = [&head[..], &versions, &length, name.as_bytes(), &nothing].concat();
    stream.write_u16(u16::try_from(asked.len())?).await?;
    stream.write_all(&asked).await?;
    let (_, refused) = (stream.read_u8().await?, stream.read_u8().await?);
    ensure!(refused == 0, "the registry does not take {name}");
    Ok(stream)
}

#[async_trait]
impl Three for RabbitMqThree {
    fn lines(&self) -> String {
        self.nodes[STAYS].lines()
    }

    /// The node leads by which a queue is declared.
    async fn topic(&mut self, group: &str) -> Result<String> {
        let topic = format!("topic-{}", EventId::new());
        self.nodes[LEADS].join(group, &topic).await?;
        Ok(topic)
    }

    async fn sink(&self) -> Result<Arc<dyn Sink>> {
        self.nodes[STAYS].sink(Manner::new("it")).await
    }

    async fn feed(&self, subscription: Subscription) -> Result<Arc<dyn Feed>> {
        self.nodes[STAYS].feed(subscription).await
    }

    async fn kill(&mut self, which: usize) -> Result<()> {
        self.nodes[which].kill().await
    }

    /// Its registry is a new one.
    async fn revive(&mut self, which: usize) -> Result<()> {
        let (revived, told) = tokio::join!(self.nodes[which].revive(), self.tell(which));
        self.told[which] = told?;
        revived
    }
}
