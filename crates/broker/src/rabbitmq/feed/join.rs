//! Joining a group: a connection, what must be there, and a consumer on each queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use event::Refusal;
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, message};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::super::line::{Line, Target};
use super::super::refusal::{self, Where};
use super::super::topology::{Exchange, Kind, Queue};

/// How long to rest after the first failure to join; twice as long after each further one.
const REST: Duration = Duration::from_millis(100);

/// How often that doubles.
const DOUBLES: u32 = 6;

/// What a consumer needs of the broker.
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) exchange: Exchange,
    pub(super) queues: Vec<Queue>,
    pub(super) declare: bool,
    pub(super) kind: Kind,
    /// How many of a queue the broker may leave unended here.
    pub(super) prefetch: u16,
    /// How often joining has failed since it last did not.
    pub(super) failures: AtomicU32,
    /// How many connections there have been.
    pub(super) lines: AtomicU64,
}

/// A connection that consumes.
pub(super) struct Joined {
    // The first to be dropped: it ends the connection before consumers are cancelled.
    pub(super) line: Line,
    pub(super) id: u64,
    pub(super) lost: AtomicBool,
    pub(super) arrivals: Mutex<Arrivals>,
    _channel: Channel,
}

/// All that comes from all queues.
type Arrivals = SelectAll<BoxStream<'static, Brought>>;

/// What a queue brought: nothing, when the broker has cancelled its consumer.
type Brought = (String, lapin::Result<Option<message::Delivery>>);

impl Joined {
    pub(super) fn lives(&self) -> bool {
        self.line.lives() && !self.lost.load(Ordering::SeqCst)
    }
}

impl Plan {
    /// Connects, declares and consumes. After failures it rests first, so that nobody storms.
    pub(super) async fn join(self: Arc<Plan>) -> Result<Joined, Refusal> {
        let failures = self.failures.fetch_add(1, Ordering::SeqCst);
        if failures > 0 {
            sleep(REST * 2u32.pow((failures - 1).min(DOUBLES))).await;
        }
        let line = self.target.connect().await?;
        self.prepare(&line).await?;
        let consuming = self.consume(&line).await;
        let at = Where { host: &self.target.host, exchange: &self.exchange.name };
        let (channel, arrivals) = consuming.map_err(|error| refusal::before(&error, at))?;
        self.failures.store(0, Ordering::SeqCst);
        let id = self.lines.fetch_add(1, Ordering::SeqCst) + 1;
        let (lost, arrivals) = (AtomicBool::new(false), Mutex::new(arrivals));
        Ok(Joined { line, id, lost, arrivals, _channel: channel })
    }

    /// Makes sure that the queues are there.
    pub(super) async fn prepare(&self, line: &Line) -> Result<(), Refusal> {
        if self.declare {
            self.exchange.ensure(line, &self.target.host).await?;
        }
        for queue in &self.queues {
            self.one(line, queue).await.map_err(|error| {
                let at = Where { host: &self.target.host, exchange: &queue.name };
                refusal::before_queue(&error, at)
            })?;
        }
        Ok(())
    }

    async fn one(&self, line: &Line, queue: &Queue) -> lapin::Result<()> {
        let channel = line.plain_channel().await?;
        match self.declare {
            true => queue.declare(&channel, &self.exchange.name, self.kind).await?,
            false => queue.look(&channel).await?,
        }
        channel.close(200, "OK".into()).await
    }

    async fn consume(&self, line: &Line) -> lapin::Result<(Channel, Arrivals)> {
        let channel = line.plain_channel().await?;
        channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
        let mut all = SelectAll::new();
        for Queue { name, .. } in &self.queues {
            let (queue, tag) = (name.as_str().into(), "".into());
            let options = BasicConsumeOptions::default();
            let consumer =
                channel.basic_consume(queue, tag, options, FieldTable::default()).await?;
            let (queue, cancelled) = (name.clone(), (name.clone(), Ok(None)));
            let brought = consumer.map(move |brought| (queue.clone(), brought.map(Some)));
            all.push(brought.chain(stream::iter([cancelled])).boxed());
        }
        Ok((channel, all))
    }
}
