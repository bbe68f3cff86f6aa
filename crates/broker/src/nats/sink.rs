//! The sink `nats`: publishes, and takes JetStream's acknowledgment as the receipt.
//!
//! It never tries again by itself, and writes nothing that it has answered for.

use std::fmt;
use std::sync::Arc;

use async_nats::RequestErrorKind;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Gauge, Inspection, Receipt, Refusal, Sink};
use tokio::time::{Instant, timeout_at};

use super::absence::Witness;
use super::link::Link;
use super::streams::Ways;
use super::{Options, inspect, refusal, wire};
use crate::gate::Gate;
use crate::keyed::{self, Offered};
use crate::leads::Leads;
use crate::manner::{Manner, Naming};
use crate::rounds::Rounds;
use crate::seen::Seen;
use crate::width::Signal;

/// Publishes events to JetStream.
pub struct Nats {
    link: Link,
    topic: Naming,
    stream: Option<String>,
    manner: Manner,
    gate: Arc<Gate>,
    /// Subjects that had events, whose streams the next look is at.
    seen: Seen,
    witness: Witness,
    leads: Leads,
    rounds: Rounds,
}

impl Nats {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<Nats, Cause> {
        let Options { access, topic, stream, manner } = options;
        if manner.timeout.is_zero() {
            return Err(Cause::new(Code::ConfigInvalid, "timeout: it must be longer than 0"));
        }
        let link = Link::new(&access, manner.timeout)?;
        let gate = manner.gates.of(&format!("nats://{}", link.host), manner.concurrency);
        let leads = Leads::new(&topic, &manner.topics);
        let (seen, witness, rounds) = (Seen::default(), Witness::default(), Rounds::default());
        Ok(Nats { link, topic, stream, manner, gate, seen, witness, leads, rounds })
    }

    async fn offer(&self, event: &Event) -> Offered {
        let answer = self.publish_one(event).await;
        match answer {
            Ok((receipt, signal)) => (Ok(receipt), signal),
            Err(refusal) => {
                let signal = refusal::load(&refusal);
                (Err(refusal), signal)
            }
        }
    }

    async fn publish_one(&self, event: &Event) -> Result<(Receipt, Signal), Refusal> {
        let subject = self.topic.of(event);
        wire::check(&subject).map_err(Refusal::Reject)?;
        let filled = wire::fill(event, &self.manner.source, self.stream.as_deref());
        let (headers, payload) = filled.map_err(Refusal::Reject)?;
        let until = Instant::now() + self.manner.timeout;
        let host = &self.link.host;
        let context = timeout_at(until, self.link.context()).await;
        let context = context.map_err(|_| self.absent())??;
        self.seen.note(&subject);
        let began = Instant::now();
        let message = PublishMessage::build().headers(headers).payload(payload);
        let written = timeout_at(until, context.send_publish(subject.clone(), message)).await;
        let written = written.map_err(|_| self.absent())?;
        let acknowledged = written.map_err(|error| refusal::not_written(&error, &subject, host))?;
        let answer = tokio::select! {
            answer = timeout_at(until, acknowledged.into_future()) => answer,
            () = self.link.denied(&subject, began) => return Err(refusal::denied(&subject)),
        };
        let receipt = match answer.map_err(|_| refusal::late(host))? {
            Ok(receipt) => receipt,
            Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
                let absence = self.witness.absence(&self.link, &context, &subject, until).await;
                return Err(refusal::nobody(&absence, &subject, host));
            }
            Err(error) => return Err(refusal::no_receipt(&error, &subject, host)),
        };
        self.witness.kept(&subject);
        let broker_id = Some(format!("{}:{}", receipt.stream, receipt.sequence));
        Ok((Receipt { broker_id }, Signal::Good(began.elapsed())))
    }

    async fn look(&self, rounds: Option<&Rounds>) -> Result<Inspection, Refusal> {
        let context = self.link.context().await?;
        let published = self.seen.all();
        let ways = Ways { stream: self.stream.as_deref(), leads: &self.leads, published };
        inspect::look(&context, &self.link.host, &ways, rounds).await
    }

    /// Nothing was written, because nobody let us.
    fn absent(&self) -> Refusal {
        let detail = format!("{}: it takes nothing in", self.link.host);
        Refusal::Down(Cause::new(Code::SinkDown, detail))
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("host", &self.link.host).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for Nats {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let until = self.manner.until();
        let answers = keyed::publish(events, &self.gate, &until, |event| self.offer(event)).await;
        // Where another stream takes something, those whose stream is away wait by themselves.
        match answers.iter().any(Result::is_ok) {
            true => answers,
            false => answers.into_iter().map(|it| it.map_err(refusal::of_whole)).collect(),
        }
    }

    /// Asks JetStream about the account. One that may not ask that can be reached all the same.
    async fn probe(&self) -> Result<(), Refusal> {
        let until = Instant::now() + self.manner.timeout;
        let context = timeout_at(until, self.link.context()).await;
        let client = context.map_err(|_| self.absent())??.client();
        let (asked, began) = ("$JS.API.INFO", Instant::now());
        let answer = tokio::select! {
            answer = timeout_at(until, client.request(asked, "".into())) => answer,
            () = self.link.denied(asked, began) => return Ok(()),
        };
        let off = "JetStream is not enabled for this account";
        let down = |why: &dyn fmt::Display| {
            Refusal::Down(Cause::new(Code::SinkDown, format_args!("{}: {why}", self.link.host)))
        };
        match answer {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Err(down(&off)),
            Ok(Err(error)) => Err(down(&error)),
            Err(_) => Err(self.absent()),
        }
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        let looking = self.gate.look();
        let seeing = self.look(Some(&self.rounds)).await?;
        looking.tell(Inspection::total(&seeing.levels, Gauge::Disk));
        Ok(seeing)
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        self.look(None).await
    }

    async fn close(&self) {
        self.link.close().await;
    }
}
