//! The sink `redis`: one `XADD` per event, in pipelines on one connection, several of them on the
//! way; the id of the entry is the receipt.
//!
//! It never tries again by itself, never trims, and makes a stream with its first entry.

use std::fmt;
use std::sync::Arc;
use std::vec::IntoIter;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Inspection, Receipt, Refusal, Sink};
use redis::{Cmd, Pipeline, RedisResult, cmd};
use tokio::time::{Instant, timeout_at};

use super::inspect::Worth;
use super::link::{Line, Link};
use super::pace::Pace;
use super::streams::Streams;
use super::{Options, entry, inspect, refusal};
use crate::gate::Gate;
use crate::keyed::Offered;
use crate::leads::Leads;
use crate::manner::{Manner, Naming};
use crate::rounds::Rounds;
use crate::seen::Seen;
use crate::waves::{self, Out, Size};
use crate::width::Signal;

/// While the server writes down what one pipeline added, the next ones are on the way.
const WAVES: Size = Size { at_once: 4, bytes: usize::MAX };
/// How many words the command of an event without headers has.
const ARGS: usize = 29;
/// How many bytes the words of most events have besides the payload.
const ROOM: usize = 512;

/// Adds events to streams.
pub struct Redis {
    link: Link,
    topic: Naming,
    manner: Manner,
    gate: Arc<Gate>,
    /// Streams that had events, which the next look is at.
    seen: Seen,
    leads: Leads,
    streams: Streams,
    rounds: Rounds,
    pace: Pace,
}

impl Redis {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Redis, Cause> {
        let Options { url, topic, manner } = options;
        let link = Link::new(&url, manner.timeout)?;
        let gate = manner.gates.of(&format!("redis://{}", link.host), manner.concurrency);
        let (leads, seen) = (Leads::new(&topic, &manner.topics), Seen::default());
        let (streams, rounds, pace) = Default::default();
        Ok(Redis { link, topic, manner, gate, seen, leads, streams, rounds, pace })
    }

    /// Adds events of different keys in one pipeline.
    async fn offer(&self, events: Vec<&Event>) -> Vec<Offered> {
        let checked = events.iter().map(|event| entry::check(event).map_err(Refusal::Reject));
        let checked: Vec<_> = checked.collect();
        let until = Instant::now() + self.manner.timeout;
        let line = match timeout_at(until, self.link.line()).await {
            Ok(Ok(line)) => line,
            Ok(Err(refusal)) => return unwritten(&checked, &refusal),
            Err(_) => return unwritten(&checked, &self.absent()),
        };
        let mut pipeline = Pipeline::with_capacity(events.len());
        pipeline.ignore_errors();
        let asked = events.iter().zip(checked).map(|(event, checked)| {
            let stream = self.topic.of(event);
            checked?;
            pipeline.add_command(adding(event, &self.manner.source, &stream, line.largest)?);
            self.seen.note(&stream);
            Ok(stream)
        });
        let asked = asked.collect();
        let offered = self.add(&line, &pipeline, asked, until).await;
        if offered.iter().any(|(answer, _)| matches!(answer, Err(Refusal::Unknown(_)))) {
            self.link.forget(&line).await;
        }
        offered
    }

    /// Runs a pipeline that has one command for each stream of `asked`.
    async fn add(
        &self,
        line: &Line,
        pipeline: &Pipeline,
        asked: Vec<Result<String, Refusal>>,
        until: Instant,
    ) -> Vec<Offered> {
        let (began, mut connection) = (Instant::now(), line.connection.clone());
        let told = match pipeline.is_empty() {
            true => Ok(Ok(Vec::new())),
            false => timeout_at(until, pipeline.query_async(&mut connection)).await,
        };
        let (host, now) = (&self.link.host, Instant::now());
        let (told, silence) = match told {
            Ok(Ok(told)) => (told, None),
            Ok(Err(error)) => (Vec::new(), Some(error)),
            Err(_) => (Vec::new(), None),
        };
        // What was not written, or not answered, tells nothing of the next answer's time.
        let taken = told.iter().any(Result::is_ok);
        let good = (!told.is_empty()).then(|| self.pace.answered(began, now, told.len(), taken));
        let mut good = Signal::Good(good.unwrap_or_default());
        let mut told: IntoIter<RedisResult<String>> = told.into_iter();
        let mut judged = |stream: String| match (told.next(), &silence) {
            (Some(Ok(id)), _) => Ok(Receipt { broker_id: Some(format!("{stream}:{id}")) }),
            (Some(Err(error)), _) => Err(refusal::judge(&error, &stream, host)),
            (None, Some(error)) => Err(refusal::judge(error, &stream, host)),
            (None, None) => Err(refusal::late(host)),
        };
        let offered = |asked: Result<String, Refusal>| match asked.and_then(&mut judged) {
            Ok(receipt) => (Ok(receipt), std::mem::replace(&mut good, Signal::Along)),
            Err(refusal) => {
                let signal = refusal::load(&refusal);
                (Err(refusal), signal)
            }
        };
        asked.into_iter().map(offered).collect()
    }

    async fn look(&self) -> Result<Worth, Refusal> {
        let line = self.link.line().await?;
        let looked = inspect::worth(&mut line.connection.clone()).await;
        let host = &self.link.host;
        match looked.map_err(|error| refusal::judge(&error, "INFO", host)) {
            Err(Refusal::Unknown(cause)) => {
                self.link.forget(&line).await;
                Err(Refusal::Down(cause))
            }
            looked => looked,
        }
    }

    /// Nothing was written, because there is no connection.
    fn absent(&self) -> Refusal {
        let detail = format!("{}: nobody answers", self.link.host);
        Refusal::Down(Cause::new(Code::SinkDown, detail))
    }
}

/// Writes the command that adds an entry, if the server takes values as large as its own.
fn adding(event: &Event, source: &str, stream: &str, largest: usize) -> Result<Cmd, Refusal> {
    let (mut adding, mut large) = (Cmd::with_capacity(ARGS, ROOM + event.payload.len()), None);
    adding.arg("XADD").arg(stream).arg("*");
    entry::fill(event, source, |name, value| {
        if value.len() > largest && large.is_none() {
            large = Some((name.to_owned(), value.len()));
        } else {
            adding.arg(name).arg(value);
        }
    });
    let Some((name, bytes)) = large else { return Ok(adding) };
    let detail = format!(
        "{stream}: {name} has {bytes} bytes; the limit is {largest}: raise proto-max-bulk-len, or \
         store it elsewhere and put a reference"
    );
    Err(Refusal::Reject(Cause::new(Code::TooLarge, detail)))
}

/// Answers for what was never written: what can be no entry is rejected all the same.
fn unwritten(checked: &[Result<(), Refusal>], refusal: &Refusal) -> Vec<Offered> {
    let answer = |checked: &Result<(), Refusal>| match checked {
        Ok(()) => (Err(refusal.clone()), refusal::load(refusal)),
        Err(reject) => (Err(reject.clone()), refusal::load(reject)),
    };
    checked.iter().map(answer).collect()
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("host", &self.link.host).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for Redis {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let until = self.manner.until();
        let offer = async |wave: Vec<Out<'_>>| {
            let offered = self.offer(wave.iter().map(|out| out.event).collect()).await;
            assert_eq!(offered.len(), wave.len(), "a wave is answered event by event");
            wave.into_iter().zip(offered).for_each(|(out, offered)| out.tell(offered));
        };
        waves::publish(events, &self.gate, &until, WAVES, offer).await
    }

    async fn probe(&self) -> Result<(), Refusal> {
        let until = Instant::now() + self.manner.timeout;
        let line = timeout_at(until, self.link.line()).await.map_err(|_| self.absent())??;
        let mut connection = line.connection.clone();
        let pinged = timeout_at(until, cmd("PING").query_async::<String>(&mut connection)).await;
        let judged = match pinged {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => refusal::judge(&error, "PING", &self.link.host),
            Err(_) => self.absent(),
        };
        self.link.forget(&line).await;
        match judged {
            // Nothing was added: that the answer is missing says that it is out of reach.
            Refusal::Unknown(cause) => Err(Refusal::Down(cause)),
            refusal => Err(refusal),
        }
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let looking = self.gate.look();
        let Worth { mut seeing, full } = self.look().await?;
        let mut connection = self.link.line().await?.connection;
        let published = self.seen.all();
        let (leads, rounds) = (&self.leads, &self.rounds);
        let streams = self.streams.find(&mut connection, leads, published, &mut seeing).await;
        inspect::levels(&mut connection, streams, &leads.exact(), rounds, &mut seeing).await;
        looking.tell(full);
        Ok(seeing)
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        Ok(self.look().await?.seeing)
    }

    async fn close(&self) {
        self.link.close().await;
    }
}
