//! RabbitMQ: confirmed, mandatory, persistent; what no queue takes is refused.
//!
//! Events of one key are published one after another, keys side by side, in waves. Those of a wave
//! that have the same routing key have a channel while they are out (see `offer.rs` and `wave.rs`).
//! The sink tries again by itself only where a channel was closed because of another event.

mod book;
mod feed;
mod inspect;
mod joint;
mod line;
mod management;
mod offer;
mod reach;
mod refusal;
mod topology;
mod wave;
mod wire;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use event::{Answer, Cause, Durability, Event, Gauge, Inspection, Refusal, Secret, Sink};
use lapin::Channel;
use tokio::time::{Instant, timeout_at};

pub use self::feed::{FeedOptions, RabbitMqFeed};
use self::inspect::Management;
use self::joint::Joint;
use self::line::{Line, Target};
use self::refusal::Where;
use self::topology::Exchange;
use crate::gate::Gate;
use crate::keyed::Until;
use crate::leads::Leads;
use crate::manner::{Manner, Naming};
use crate::traits::Traits;
use crate::waves::{self, Size};

/// How RabbitMQ differs.
pub const TRAITS: Traits = Traits {
    kind: "rabbitmq",
    durability: Durability::Replicated,
    keeps: true,
    // `max_message_size` of 4.x.
    largest: 16 * 1024 * 1024,
    dedupes: false,
    knows_topics: true,
    ordered: true,
    counts: true,
    // What is handed out stays with its holder until the connection ends, or the broker's
    // `consumer_timeout` (30 minutes) does it.
    leases: false,
    levels: &[Gauge::Lag, Gauge::Dead, Gauge::Disk],
};

/// The library puts what ends a channel before what is still to be written on it, and the broker
/// ends the connection of whoever writes on a channel that has ended: a wave must not be longer
/// than what the library writes at once.
const WAVES: Size = Size { at_once: 1, bytes: 1 << 20 };

/// Where and how events are published.
#[derive(Clone, Debug)]
pub struct Options {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://…`.
    pub url: Secret,
    /// The exchange; the empty one leads to the queue that the routing key names.
    pub exchange: String,
    /// The routing key.
    pub topic: Naming,
    /// Whether the exchange is declared, as a durable topic exchange, if it is not there.
    pub declare: bool,
    /// What all sinks are told.
    pub manner: Manner,
}

/// Publishes events.
pub struct RabbitMq {
    target: Target,
    exchange: Exchange,
    topic: Naming,
    source: String,
    until: Until,
    gate: Arc<Gate>,
    line: Joint<Line>,
    management: Option<Management>,
    leads: Leads,
}

impl RabbitMq {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<RabbitMq, Cause> {
        let Options { url, exchange, topic, declare, manner } = options;
        let target = Target::new(&url, manner.timeout, &manner.source)?;
        let exchange = Exchange::new(exchange, declare)?;
        let (there, wanted) = (target.clone(), exchange.clone());
        let make = move || {
            let (target, exchange) = (there.clone(), wanted.clone());
            let making: futures_util::future::BoxFuture<'static, _> = Box::pin(async move {
                let line = target.connect().await?;
                exchange.ensure(&line, &target.host).await?;
                Ok(line)
            });
            making
        };
        let line = Joint::new(&target.host, Box::new(make), Line::lives);
        let gate = manner.gates.of(&target.destination(), manner.concurrency);
        let until = manner.until();
        let (leads, management) = (Leads::new(&topic, &manner.topics), None);
        let source = manner.source;
        Ok(RabbitMq { target, exchange, topic, source, until, gate, line, management, leads })
    }

    /// Lets it ask the management plugin too, at `http://USER:PASSWORD@HOST:PORT` or `https://…`:
    /// only there RabbitMQ tells what queues it has and how full they are.
    pub fn with_management(mut self, url: &Secret) -> Result<RabbitMq, Cause> {
        self.management = Some(Management::new(url, self.until.patience)?);
        Ok(self)
    }

    fn at(&self) -> Where<'_> {
        Where { host: &self.target.host, exchange: &self.exchange.name }
    }

    /// Finds the connection, and a channel that nobody else uses.
    async fn enter(&self, until: Instant) -> Result<(Arc<Line>, Channel), Refusal> {
        let line = self.line.get(until).await?;
        if let Some(reason) = line.blocked() {
            return Err(refusal::blocked(&self.target.host, &reason));
        }
        let opened = timeout_at(until, line.channel()).await;
        let channel = match opened {
            Ok(opened) => opened.map_err(|error| refusal::before(&error, self.at()))?,
            Err(_) => return Err(self.silent(&line).await),
        };
        Ok((line, channel))
    }

    /// Judges a broker that does not even open a channel. Its connection is given up: a fresh one
    /// may lead to a host that answers.
    async fn silent(&self, line: &Arc<Line>) -> Refusal {
        if let Some(reason) = line.blocked() {
            return refusal::blocked(&self.target.host, &reason);
        }
        self.line.drop_this(line).await;
        refusal::down(&self.target.host, "it does not answer in time")
    }
}

#[async_trait]
impl Sink for RabbitMq {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        waves::publish(events, &self.gate, &self.until, WAVES, |wave| self.offer(wave)).await
    }

    /// Asks for the exchange, on the connection that events use.
    async fn probe(&self) -> Result<(), Refusal> {
        let until = Instant::now() + self.until.patience;
        let line = self.line.get(until).await?;
        if let Some(reason) = line.blocked() {
            return Err(refusal::blocked(&self.target.host, &reason));
        }
        match timeout_at(until, self.exchange.ensure(&line, &self.target.host)).await {
            Ok(there) => there,
            Err(_) => Err(self.silent(&line).await),
        }
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let Some(management) = &self.management else {
            self.probe().await?;
            return Ok(inspect::unmanaged());
        };
        let looking = self.gate.look();
        self.probe().await?;
        let (vhost, exchange) = (self.target.vhost(), &self.exchange.name);
        let seen = management.inspect(vhost, exchange, &self.leads).await?;
        looking.tell(Inspection::total(&seen.levels, Gauge::Disk));
        Ok(seen)
    }

    async fn close(&self) {
        if let Some(line) = self.line.part().await {
            line.close().await;
        }
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMq").field("host", &self.target.host).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use event::Code;

    use super::*;

    fn options(url: &str) -> Options {
        Options {
            url: Secret::new(url),
            exchange: "orders".to_owned(),
            topic: Naming::default(),
            declare: true,
            manner: Manner { timeout: Duration::from_secs(2), ..Manner::new("orders") },
        }
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for url in ["", "canary", "http://u:canary@h/", "amqp://u:canary@h:port/"] {
            let cause = RabbitMq::new(options(url)).unwrap_err();
            assert_eq!(cause.code, Code::ConfigInvalid);
            assert!(!cause.detail.contains("canary"), "{cause}");
        }
        let sink = RabbitMq::new(options("amqp://u:canary@h:1/%2f")).unwrap();
        assert!(!format!("{sink:?}").contains("canary"));
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_down_and_named() {
        let sink = RabbitMq::new(options("amqp://u:canary@127.0.0.1:1/%2f")).unwrap();
        let events = [Event::new("t", "T", "{}"), Event::new("t", "T", "{}").key("k")];
        for answer in sink.publish(&events).await {
            let Err(Refusal::Down(cause)) = answer else { panic!("{answer:?}") };
            assert!(cause.detail.contains("127.0.0.1:1"), "{cause}");
            assert!(!cause.detail.contains("canary"), "{cause}");
        }
        assert!(matches!(sink.probe().await, Err(Refusal::Down(_))));
        assert!(matches!(sink.inspect().await, Err(Refusal::Down(_))));
    }

    #[tokio::test]
    async fn a_look_that_fails_takes_back_how_full_the_broker_was() {
        let sink = RabbitMq::new(options("amqp://u:p@127.0.0.1:1/%2f")).unwrap();
        let sink = sink.with_management(&Secret::new("http://u:p@127.0.0.1:1")).unwrap();
        let before = sink.gate.width();
        sink.gate.press(Some(1.0));
        assert_eq!(sink.gate.width(), 1);
        assert!(sink.inspect().await.is_err());
        assert_eq!(sink.gate.width(), before);
    }
}
