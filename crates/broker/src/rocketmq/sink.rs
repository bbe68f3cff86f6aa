//! Publishing to RocketMQ through its proxy. Only SEND_OK is a receipt.
//!
//! FIFO and delayed events go one per request: of a request with several, a proxy ignores the
//! group, and a later one overtook an earlier one. Normal events share requests (see `batch`).

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use event::{Answer, Cause, Code, Event, Inspection, Receipt, Refusal, Sink};
use tokio::time::{Instant, timeout, timeout_at};

use super::address::{self, Places};
use super::common::Common;
use super::part::{self, Shown};
use super::refusal::{self, Absence};
use super::remoting::Trust;
use super::wire::{Line, resource, v2};
use super::witness::{self, Witness};
use super::{Options, Shape, batch, inspect};
use crate::keyed::{self, Offered};
use crate::width::Signal;

/// Queues that one broker may have in a row, before the next one's begin. Where there are more, an
/// event may have to back off.
const QUEUES: usize = 32;

/// What goes in one request; whoever sends it only once gives it away.
pub(super) type Letters<'a> = Cow<'a, [v2::Message]>;

/// What came in a turn of the line: a receipt, or the status that says why there is none.
type Answered = (usize, Result<Receipt, v2::Status>);

/// Publishes events.
pub struct RocketMq {
    pub(super) common: Common,
    pub(super) witness: Witness,
    shown: Shown,
    line: Line,
}

impl RocketMq {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: Options) -> Result<RocketMq, Cause> {
        let places = address::read(&options.access.url)?;
        let line = Line::new(&options.access, &places, options.manner.timeout)?;
        let Places { proxies, names, names_tls, .. } = places;
        let destination = format!("rocketmq://{}", proxies.join(","));
        let trust = names_tls.then(Trust::machine).transpose()?;
        let common = Common::new(options, &destination, names, trust)?;
        let (witness, shown) = (Witness::default(), Shown::default());
        Ok(RocketMq { common, witness, shown, line })
    }

    async fn offer(&self, event: &Event) -> Offered {
        match self.common.letters.write(event) {
            Ok(letter) => self.post(vec![letter].into()).await,
            Err(cause) => (Err(Refusal::Reject(cause)), Signal::Silent),
        }
    }

    /// Sends letters of one topic in one request: all of them are taken, or none.
    pub(super) async fn post(&self, letters: Letters<'_>) -> Offered {
        let topic = letters.first().and_then(|letter| letter.topic.as_ref());
        let topic = topic.map(|topic| topic.name.clone()).unwrap_or_default();
        self.common.topics.offered(&topic);
        let began = Instant::now();
        let answer = self.send(letters, &topic).await;
        let signal = match &answer {
            Ok(_) => Signal::Good(began.elapsed()),
            Err(refusal) => refusal::load(refusal),
        };
        (answer, signal)
    }

    /// Events without order may go to any broker. A proxy does not pass over one that is away, but
    /// takes the next queue with every request.
    async fn send(&self, letters: Letters<'_>, topic: &str) -> Answer {
        let began = Instant::now();
        let (half, until) = (began + self.common.timeout / 2, began + self.common.timeout);
        let tries = if self.common.letters.shape == Shape::Fifo { 1 } else { QUEUES };
        for _ in 1..tries {
            match self.request(letters.to_vec(), until).await? {
                (_, Err(bad)) if refusal::is_of_one_broker(&bad) && Instant::now() < half => {
                    self.shown.missed();
                }
                answered => return self.take(answered, topic).await,
            }
        }
        let answered = self.request(letters.into_owned(), until).await?;
        self.take(answered, topic).await
    }

    /// Sends one request; returns what it brought, and in which turn of the line.
    async fn request(
        &self,
        messages: Vec<v2::Message>,
        until: Instant,
    ) -> Result<Answered, Refusal> {
        let mut call = self.line.call();
        let host = self.line.host(call.turn);
        let request = v2::SendMessageRequest { messages };
        match timeout_at(until, call.client.send_message(request)).await {
            Ok(Ok(response)) => Ok((call.turn, read(response.into_inner())?)),
            Ok(Err(status)) => {
                self.line.leave(call.turn);
                Err(refusal::without(&status, host))
            }
            Err(_) => {
                self.line.leave(call.turn);
                Err(refusal::silent(host, self.common.timeout))
            }
        }
    }

    async fn take(&self, (turn, said): Answered, topic: &str) -> Answer {
        let bad = match said {
            Ok(receipt) => {
                self.common.topics.worked(topic);
                self.shown.taken();
                return Ok(receipt);
            }
            Err(bad) => bad,
        };
        let refusal = self.judge(&bad, topic).await;
        // Another proxy may have what this one has lost; a single one is not left for it.
        if self.line.several() && matches!(refusal, Refusal::Down(_) | Refusal::Unknown(_)) {
            self.line.leave(turn);
        }
        // What a proxy says is away need not be the whole: that is judged when all was offered.
        let part = part::of_part(refusal);
        if part::is_away(&part) {
            self.shown.missed();
        }
        Err(part)
    }

    pub(super) async fn judge(&self, status: &v2::Status, topic: &str) -> Refusal {
        if let Some(lack) = refusal::lack(status) {
            let said = format!("{}: {}", status.code, status.message);
            self.common.unkept.note(lack, topic, &said);
        }
        let absence = match refusal::routeless(status) {
            true => witness::absence(self, topic).await,
            false => Absence::Missing,
        };
        refusal::of(status, topic, absence)
    }

    /// Asks where a topic is.
    pub(super) async fn route(&self, topic: &str) -> Result<v2::QueryRouteResponse, Refusal> {
        let mut call = self.line.call();
        let host = self.line.host(call.turn);
        let endpoints = Some(self.line.endpoints());
        let request = v2::QueryRouteRequest { topic: resource(topic), endpoints };
        match timeout(self.common.timeout, call.client.query_route(request)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => {
                self.line.leave(call.turn);
                Err(refusal::without(&status, host))
            }
            Err(_) => {
                self.line.leave(call.turn);
                Err(refusal::silent(host, self.common.timeout))
            }
        }
    }
}

/// Reads a receipt, or the status that says why there is none.
fn read(response: v2::SendMessageResponse) -> Result<Result<Receipt, v2::Status>, Refusal> {
    let v2::SendMessageResponse { status, entries } = response;
    let bad = |status: &v2::Status| status.code != refusal::OK;
    // The status of the whole may speak of several results; those of the entries are exact.
    let of_entry = entries.iter().filter_map(|entry| entry.status.clone()).find(bad);
    if let Some(bad) = of_entry.or_else(|| status.filter(bad)) {
        return Ok(Err(bad));
    }
    let Some(entry) = entries.into_iter().next() else {
        let nothing = "it may have arrived: the proxy answered without a result";
        return Err(Refusal::Unknown(Cause::new(Code::SinkBroken, nothing)));
    };
    Ok(Ok(Receipt { broker_id: Some(entry.message_id).filter(|id| !id.is_empty()) }))
}

impl fmt::Debug for RocketMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocketMq").field("line", &self.line).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for RocketMq {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let answers = match self.common.letters.shape {
            Shape::Normal => batch::publish(self, events).await,
            Shape::Fifo | Shape::Delay => {
                let Common { gate, until, .. } = &self.common;
                keyed::publish(events, gate, until, |event| self.offer(event)).await
            }
        };
        match part::is_in_doubt(&answers) && !self.shown.lives() {
            true => part::all_of_whole(answers),
            false => answers,
        }
    }

    /// Asks for the routes of topics that have worked, until there is one. If none has worked yet,
    /// that there is no route is an answer too.
    async fn probe(&self) -> Result<(), Refusal> {
        const ANY: &str = "postbox-probe";
        const MOST: usize = 16;
        let mut topics = self.common.topics.all();
        let absence = if topics.is_empty() { Absence::Missing } else { Absence::Lost };
        if topics.is_empty() {
            topics.push(ANY.to_owned());
        }
        let mut lost = Ok(());
        for topic in topics.iter().take(MOST) {
            let status = match self.route(topic).await {
                Ok(response) => response.status.unwrap_or_default(),
                // Silence is no answer: it cannot take events either.
                Err(Refusal::Unknown(cause)) => return Err(Refusal::Down(cause)),
                Err(refusal) => return Err(refusal),
            };
            match refusal::of(&status, topic, absence) {
                down @ Refusal::Down(_) if status.code != refusal::OK => lost = Err(down),
                _ => return Ok(()),
            }
        }
        lost
    }

    async fn inspect(&self) -> Result<Inspection, Refusal> {
        inspect::inspect(&self.common, self.probe().await).await
    }

    async fn worth(&self) -> Result<Inspection, Refusal> {
        inspect::worth(&self.common, self.probe().await).await
    }

    async fn close(&self) {
        self.line.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio::net::{TcpListener, TcpSocket};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::super::Access;
    use super::*;
    use crate::manner::{Manner, Naming};

    fn sink(url: String) -> RocketMq {
        let manner = Manner { timeout: Duration::from_secs(20), ..Manner::new("orders") };
        let access = Access { url, keys: None };
        let (topic, shape) = (Naming::default(), Shape::Fifo);
        RocketMq::new(Options { access, topic, shape, manner }).unwrap()
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_trusts_is_down_and_told() {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        let sink = sink(format!("rocketmq+tls://localhost:{port}"));
        let answers = sink.publish(&[Event::new("t", "T", "{}").key("k")]).await;
        let Err(Refusal::Down(cause)) = &answers[0] else { panic!("{answers:?}") };
        assert!(cause.detail.contains("certificate"), "{cause}");
        assert!(matches!(sink.probe().await, Err(Refusal::Down(_))));
        serving.abort();
    }

    #[tokio::test]
    async fn a_proxy_that_is_not_there_is_down_for_each_event_and_told_by_its_address() {
        // Held without listening, so that nobody listens there.
        let held = TcpSocket::new_v4().unwrap();
        held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = held.local_addr().unwrap().port();
        let sink = sink(format!("rocketmq://127.0.0.1:{port}"));
        let events: Vec<Event> = (0..3).map(|_| Event::new("t", "T", "{}")).collect();
        for answer in sink.publish(&events).await {
            let Err(Refusal::Down(cause)) = answer else { panic!("{answer:?}") };
            assert!(cause.detail.contains(&port.to_string()), "{cause}");
        }
    }
}
