//! The sink `redis`: one `XADD` per event, many under way on one connection; the id of the entry is
//! the receipt.
//!
//! It never tries again by itself, never trims, and makes a stream with its first entry.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Inspection, Receipt, Refusal, Sink};
use redis::cmd;
use tokio::time::{Instant, timeout_at};

use super::link::Link;
use super::{Options, entry, inspect, refusal};
use crate::gate::Gate;
use crate::keyed::{self, Offered};
use crate::manner::{Manner, Naming};
use crate::width::Signal;

/// How many streams are remembered for the next look at them.
const SEEN: usize = 64;

/// Adds events to streams.
pub struct Redis {
    link: Link,
    topic: Naming,
    manner: Manner,
    gate: Arc<Gate>,
    seen: Mutex<BTreeSet<String>>,
}

impl Redis {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Redis, Cause> {
        let Options { url, topic, manner } = options;
        let link = Link::new(&url, manner.timeout)?;
        let gate = manner.gates.of(&format!("redis://{}", link.host), manner.concurrency);
        Ok(Redis { link, topic, manner, gate, seen: Mutex::default() })
    }

    async fn offer(&self, event: &Event) -> Offered {
        match self.add(event).await {
            Ok((receipt, signal)) => (Ok(receipt), signal),
            Err(refusal) => {
                let signal = refusal::load(&refusal);
                (Err(refusal), signal)
            }
        }
    }

    async fn add(&self, event: &Event) -> Result<(Receipt, Signal), Refusal> {
        let stream = self.topic.of(event);
        let fields = entry::fill(event, &self.manner.source).map_err(Refusal::Reject)?;
        let until = Instant::now() + self.manner.timeout;
        let line = timeout_at(until, self.link.line()).await.map_err(|_| self.absent())??;
        if let Some((name, value)) = fields.iter().find(|(_, value)| value.len() > line.largest) {
            let detail = format!(
                "{stream}: {name} has {} bytes; the limit is {}: raise proto-max-bulk-len, or \
                 store it elsewhere and put a reference",
                value.len(),
                line.largest
            );
            return Err(Refusal::Reject(Cause::new(Code::TooLarge, detail)));
        }
        self.see(&stream);
        let mut adding = cmd("XADD");
        adding.arg(&stream).arg("*");
        for (name, value) in &fields {
            adding.arg(name).arg(value);
        }
        let (began, mut connection) = (Instant::now(), line.connection.clone());
        let answer = timeout_at(until, adding.query_async::<String>(&mut connection)).await;
        let answer = match answer {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(error)) => Err(refusal::judge(&error, &stream, &self.link.host)),
            Err(_) => Err(refusal::late(&self.link.host)),
        };
        if let Err(Refusal::Unknown(_)) = &answer {
            self.link.forget(&line).await;
        }
        let broker_id = Some(format!("{stream}:{}", answer?));
        Ok((Receipt { broker_id }, Signal::Good(began.elapsed())))
    }

    /// Nothing was written, because there is no connection.
    fn absent(&self) -> Refusal {
        let detail = format!("{}: nobody answers", self.link.host);
        Refusal::Down(Cause::new(Code::SinkDown, detail))
    }

    fn see(&self, stream: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < SEEN && !seen.contains(stream) {
            seen.insert(stream.to_owned());
        }
    }
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
        keyed::publish(events, &self.gate, &until, |event| self.offer(event)).await
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
        let line = self.link.line().await?;
        let seen: Vec<String> = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.iter().cloned().collect()
        };
        let looked = inspect::look(line.connection.clone(), &seen).await;
        let host = &self.link.host;
        match looked.map_err(|error| refusal::judge(&error, "INFO", host)) {
            Err(Refusal::Unknown(cause)) => {
                self.link.forget(&line).await;
                Err(Refusal::Down(cause))
            }
            looked => looked,
        }
    }

    async fn close(&self) {
        self.link.close().await;
    }
}
