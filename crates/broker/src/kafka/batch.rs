//! One publish: a whole batch at once into one producer, and an answer for each event.
//!
//! Order per key (I6) needs no waiting for answers, except where a key changes its topic:
//! - Events of one key and topic go to one partition, in the order in which they are handed to the
//!   library, and one request at a time is out to a broker (`max.in.flight` = 1). More would be
//!   wrong: a broker that has not seen a producer on a partition takes any first sequence number,
//!   so the second of two requests can be stored though the first was refused, and the library
//!   then takes the first as stored too.
//! - The first event that fails ends the producer with all that is behind it; see `live`. What was
//!   still in its queue is `Held`, what was out is unknown. A deadline does the same, for the
//!   library's own would let the followers of what timed out pass.
//! - What a broker refuses because the events together are too large was not taken. It is offered
//!   once more, each by itself, and before its followers, which were held.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use event::{Answer, Cause, Code, Event, Receipt, Refusal};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::BaseRecord;
use tokio::time::{Instant, sleep_until, timeout};

use super::live::Live;
use super::look::NAMED;
use super::refusal::refusal;
use super::sink::Kafka;
use super::slots::Slots;
use super::wire::{self, Written};

/// How long the library may take to hand back what was given up.
const RETURN: Duration = Duration::from_secs(5);
/// Events below this fit into every topic that anybody would make.
const SMALL: usize = 64 * 1024;

/// One publish: events, and their answers so far.
pub(super) struct Batch<'a> {
    sink: &'a Kafka,
    live: Arc<Live>,
    events: &'a [Event],
    until: Instant,
    answers: Vec<Option<Answer>>,
    /// Keys of which an event was refused: their later ones are held.
    refused: HashSet<&'a str>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        sink: &'a Kafka,
        live: Arc<Live>,
        events: &'a [Event],
        until: Instant,
    ) -> Self {
        let answers = vec![None; events.len()];
        Batch { sink, live, events, until, answers, refused: HashSet::new() }
    }

    /// Offers all that may be out together, and waits for the answers. Tells whether there is more:
    /// events whose key was out to another topic.
    pub(super) async fn wave(&mut self) -> bool {
        let slots = Slots::new(self.events.len());
        let mut topics: HashMap<&str, String> = HashMap::new();
        let (mut later, mut out) = (HashSet::new(), Vec::new());
        for (place, event) in self.events.iter().enumerate() {
            let key = event.key.as_deref();
            if self.answers[place].is_some() || key.is_some_and(|key| later.contains(key)) {
                continue;
            }
            if key.is_some_and(|key| self.refused.contains(key)) {
                self.answers[place] = Some(Err(Refusal::Held));
                continue;
            }
            let topic = self.sink.topic.of(event);
            if let Some(key) = key
                && topics.get(key).is_some_and(|other| *other != topic)
            {
                later.insert(key);
                continue;
            }
            match self.offer(place, event, &topic, &slots).await {
                Ok(()) => out.push(place),
                Err(refusal) => self.refuse(place, refusal),
            }
            if let Some(key) = key {
                topics.entry(key).or_insert(topic);
            }
        }
        self.wait(&slots).await;
        for place in out {
            match self.judge(place, &slots) {
                Ok(receipt) => self.answers[place] = Some(Ok(receipt)),
                Err(refusal) => self.refuse(place, refusal),
            }
        }
        !later.is_empty() && self.live.is_fit()
    }

    /// Hands one event to the library.
    async fn offer(
        &self,
        place: usize,
        event: &Event,
        topic: &str,
        slots: &Arc<Slots>,
    ) -> Result<(), Refusal> {
        let Written { headers, size } =
            wire::write(event, &self.sink.manner.source).map_err(Refusal::Reject)?;
        check(topic)?;
        self.open()?;
        self.live.topic(topic, self.until).await?;
        self.sink.topics.remember(topic);
        if size > SMALL
            && let Some(largest) = self.sink.largest(topic).await
            && size > largest
        {
            return Err(Refusal::Reject(too_large(topic, size, largest)));
        }
        let mut record = BaseRecord::with_opaque_to(topic, slots.out(place));
        record = record.payload(event.payload.as_bytes()).headers(headers);
        if let Some(key) = &event.key {
            record = record.key(key.as_bytes());
        }
        loop {
            let progress = self.live.watch().progress();
            let sent = match self.live.give() {
                Some((producer, _giving)) => producer.send(record),
                None => {
                    record.delivery_opaque.take_back();
                    return Err(Refusal::Held);
                }
            };
            let Err((error, back)) = sent else { return Ok(()) };
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if full && self.open().is_ok() {
                tokio::select! {
                    () = progress => {}
                    () = self.sink.manner.stop.cancelled() => {}
                    () = sleep_until(self.until) => {}
                }
                record = back;
                continue;
            }
            back.delivery_opaque.take_back();
            return Err(if full { Refusal::Held } else { not_taken(&error, topic) });
        }
    }

    /// Tells whether anything may still be offered.
    fn open(&self) -> Result<(), Refusal> {
        let stopped = self.sink.manner.stop.is_cancelled();
        let open = !stopped && Instant::now() < self.until && self.live.is_fit();
        if open { Ok(()) } else { Err(Refusal::Held) }
    }

    async fn wait(&self, slots: &Slots) {
        tokio::select! {
            biased;
            () = slots.all() => return,
            () = self.live.fault() => {}
            () = sleep_until(self.until) => {}
        }
        self.live.purge();
        // What is not handed back even then has no answer, which is unknown.
        let _ = timeout(RETURN, slots.all()).await;
    }

    fn judge(&self, place: usize, slots: &Slots) -> Answer {
        let topic = self.sink.topic.of(&self.events[place]);
        let cut = self.live.cut();
        let late = Instant::now() >= self.until;
        match slots.told(place) {
            Some(Ok(put)) if put.offset >= 0 => {
                let id = format!("{topic}/{}/{}", put.partition, put.offset);
                Ok(Receipt { broker_id: Some(id) })
            }
            Some(Ok(_)) => Ok(Receipt { broker_id: None }),
            Some(Err(RDKafkaErrorCode::MessageSizeTooLarge)) if !self.live.alone => {
                Err(refusal(RDKafkaErrorCode::MessageBatchTooLarge, &topic))
            }
            Some(Err(RDKafkaErrorCode::PurgeQueue)) if cut.is_none() && !late => Err(Refusal::Held),
            None | Some(Err(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)) => {
                Err(Refusal::Unknown(self.unanswered(&topic, cut, late)))
            }
            Some(Err(error)) => Err(refusal(error, &topic)),
        }
    }

    fn unanswered(&self, topic: &str, cut: Option<String>, late: bool) -> Cause {
        if let Some(cut) = cut {
            return Cause::new(Code::SinkBroken, format_args!("it may have arrived: {cut}"));
        }
        let (last, timeout) = (self.live.last(), self.sink.manner.timeout);
        let last = if last.is_empty() { String::new() } else { format!("; {last}") };
        if !late {
            let why = "another event was refused while it was out, which ended their producer";
            let detail = format_args!("it may have arrived: {why}{last}");
            return Cause::new(Code::SinkBroken, detail);
        }
        let detail = format_args!(
            "it may have arrived: {topic} did not acknowledge within {timeout:?}. Its leader may \
             be out of reach, or fewer replicas in sync than min.insync.replicas asks for{last}"
        );
        Cause::new(Code::SinkTimeout, detail)
    }

    fn refuse(&mut self, place: usize, refusal: Refusal) {
        self.refused.extend(self.events[place].key.as_deref());
        self.answers[place] = Some(Err(refusal));
    }

    /// Tells whether events were refused because they are too large together.
    pub(super) fn is_too_large(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Some(answer) if together(answer)))
    }

    /// Tells whether an event was rejected because it is too large.
    pub(super) fn has_too_large(&self) -> bool {
        let large = |answer: &Option<Answer>| match answer {
            Some(Err(Refusal::Reject(cause))) => cause.code == Code::TooLarge,
            _ => false,
        };
        self.answers.iter().any(large)
    }

    /// Takes back the refusals of what was too large together, and of what was held by them: all
    /// of it can be offered to another producer. Keys of which something else was refused wait.
    pub(super) fn anew(&mut self, live: Arc<Live>) {
        self.live = live;
        self.refused = take_back(&mut self.answers, self.events);
    }

    /// Returns the answers. Once the cluster is out of reach, so is what was not offered.
    pub(super) fn answers(self) -> Vec<Answer> {
        let down = self.answers.iter().flatten().find_map(|answer| match answer {
            Err(Refusal::Down(cause)) => Some(Refusal::Down(cause.clone())),
            _ => None,
        });
        let missing = down.unwrap_or(Refusal::Held);
        let fill = |answer: Option<Answer>| match answer {
            None | Some(Err(Refusal::Held)) => Err(missing.clone()),
            Some(answer) => answer,
        };
        self.answers.into_iter().map(fill).collect()
    }
}

/// Tells whether an event was refused together with others, as too large.
fn together(answer: &Answer) -> bool {
    matches!(answer, Err(Refusal::Retry(cause, _)) if cause.code == Code::TooLarge)
}

/// Takes back what was too large together, and what was held; returns the keys that wait.
fn take_back<'a>(answers: &mut [Option<Answer>], events: &'a [Event]) -> HashSet<&'a str> {
    let mut refused = HashSet::new();
    for (answer, event) in answers.iter_mut().zip(events) {
        match answer {
            Some(given) if together(given) || *given == Err(Refusal::Held) => *answer = None,
            Some(Err(_)) => refused.extend(event.key.as_deref()),
            _ => {}
        }
    }
    refused
}

/// Judges what the library did not take from us: no broker has it.
fn not_taken(error: &KafkaError, topic: &str) -> Refusal {
    match error.rdkafka_error_code().map(|code| refusal(code, topic)) {
        Some(Refusal::Unknown(_)) | None => Refusal::Held,
        Some(refusal) => refusal,
    }
}

fn too_large(topic: &str, size: usize, largest: usize) -> Cause {
    let detail = format_args!(
        "{topic}: with its attributes it has {size} bytes; {NAMED} of the topic is {largest}: \
         raise it, or store the payload elsewhere and put a reference"
    );
    Cause::new(Code::TooLarge, detail)
}

/// Refuses a name that no broker would take.
fn check(topic: &str) -> Result<(), Refusal> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = (1..=249).contains(&topic.len()) && topic != "." && topic != "..";
    if fits && topic.chars().all(known) {
        return Ok(());
    }
    Err(refusal(RDKafkaErrorCode::InvalidTopic, &format!("{topic:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_large_together_is_taken_back_with_its_followers_and_no_other_key() {
        let event = |key: &str| Event::new("t", "T", "{}").key(key);
        let events = ["a", "a", "b", "b", "c"].map(event);
        let large = || Some(Err(refusal(RDKafkaErrorCode::MessageBatchTooLarge, "t")));
        let unknown = Some(Err(refusal(RDKafkaErrorCode::NetworkException, "t")));
        let (held, receipt) = (Some(Err(Refusal::Held)), Some(Ok(Receipt { broker_id: None })));
        let mut answers = [large(), held.clone(), unknown.clone(), held, receipt.clone()];
        let refused = take_back(&mut answers, &events);
        assert_eq!(answers, [None, None, unknown, None, receipt]);
        assert_eq!(refused, HashSet::from(["b"]), "what is unknown keeps its key");
    }

    #[test]
    fn a_name_that_no_broker_takes_is_rejected_with_the_rule() {
        assert!(check("order.paid_2-x").is_ok());
        for wrong in ["", ".", "..", "a b", "größe", &"x".repeat(250)] {
            let Err(Refusal::Reject(cause)) = check(wrong) else { panic!("{wrong:?}") };
            assert!(cause.detail.contains("letters, digits"), "{cause}");
        }
    }
}
