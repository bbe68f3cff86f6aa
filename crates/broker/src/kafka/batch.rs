//! One publish: as much of a batch at once into one producer as its gate lets through, and an
//! answer for each event.
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
//! - So what is `Held` may have arrived in one case: the library has offered it, a broker was in
//!   doubt (too few replicas in sync once it was written), and it went back into the queue. The
//!   library tells that only to unsafe code. It goes again with its id and before its followers,
//!   as what is unknown does, but no attempt is counted.
//! - What a broker refuses because the events together are too large was not taken. It is offered
//!   once more, each by itself, and before its followers, which were held.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use event::{Answer, Cause, Code, Event, Receipt, Refusal};
use futures_util::{StreamExt, stream};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::BaseRecord;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::live::Live;
use super::look::NAMED;
use super::pace::Places;
use super::refusal::refusal;
use super::sink::Kafka;
use super::slots::{Slots, Told};
use super::wire::{self, Written};
use crate::manner::Naming;

/// How long the library may take to hand back what was given up.
const RETURN: Duration = Duration::from_secs(5);
/// How soon to ask again a library that has all that it can keep.
const FULL: Duration = Duration::from_millis(10);
/// Events below this fit into every topic that anybody would make.
const SMALL: usize = 64 * 1024;
/// How many topics are looked for at once: those that are not there take a while each.
const LOOKS: usize = 16;

/// One publish: events, and their answers so far.
pub(super) struct Batch<'a> {
    sink: &'a Kafka,
    live: Arc<Live>,
    events: &'a [Event],
    /// The topic of each, as the broker calls it.
    names: Vec<Cow<'a, str>>,
    /// Until when events are handed over. What is out then still has its own time.
    until: Instant,
    answers: Vec<Option<Answer>>,
    /// Keys of which an event was refused: their later ones are held.
    refused: HashSet<&'a str>,
    /// What a look at the topics told, once one was taken.
    seen: Option<Seen>,
    /// The cluster was lost during that look.
    down: Option<Cause>,
    /// How many of those that were taken back were not offered again yet.
    untried: usize,
}

/// What is known of the topics of a batch before any of it is offered.
#[derive(Default)]
struct Seen {
    /// Topics to which nothing can go, and why.
    wrong: HashMap<String, Refusal>,
    /// How many bytes an event may have, where somebody told.
    largest: HashMap<String, usize>,
}

/// How a wave ended.
struct End {
    told: Vec<Option<Told>>,
    /// The library's last word on the connection that was lost.
    cut: Option<String>,
    late: bool,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        sink: &'a Kafka,
        live: Arc<Live>,
        events: &'a [Event],
        until: Instant,
    ) -> Self {
        let (answers, own) = (vec![None; events.len()], sink.topic == Naming::default());
        let name = |event: &'a Event| match own {
            true => Cow::from(&event.topic),
            false => Cow::from(sink.topic.of(event)),
        };
        let names = events.iter().map(name).collect();
        let (refused, seen, down, untried) = (HashSet::new(), None, None, 0);
        Batch { sink, live, events, names, until, answers, refused, seen, down, untried }
    }

    /// Offers what may be out together, and waits for the answers. Tells whether there is more:
    /// what had no place, and events whose key was out to another topic.
    pub(super) async fn wave(&mut self) -> bool {
        if !self.look().await {
            return false;
        }
        let Some(mut places) = self.enter().await else { return false };
        let (slots, began) = (Slots::new(self.events.len()), Instant::now());
        let (out, more) = self.hand_over(&slots, places.room).await;
        places.keep(out.len());
        self.untried = self.untried.saturating_sub(out.len());
        let end = self.wait(&slots, Instant::now()).await;
        let waited = began.elapsed();
        for &at in &out {
            match self.judge(at, &end) {
                Ok(receipt) => self.answers[at] = Some(Ok(receipt)),
                Err(refusal) => self.refuse(at, refusal),
            }
        }
        // How long events take one by one says nothing of how long they take together.
        if !self.live.alone {
            places.leave(out.iter().filter_map(|&at| self.answers[at].as_ref()), waited);
        }
        more && self.live.is_fit()
    }

    /// Looks at the topics of what is to be offered, unless that was done. Nobody has a place while
    /// it looks: what one batch does not find is no matter of the others. It refuses nothing, for
    /// an earlier event of the same key may go to a topic that is there. Tells whether anything may
    /// be offered.
    async fn look(&mut self) -> bool {
        if self.seen.is_some() {
            return true;
        }
        let mut names: HashMap<&str, bool> = HashMap::new();
        for (at, event) in self.events.iter().enumerate() {
            if self.answers[at].is_none() {
                *names.entry(&self.names[at]).or_default() |= may_be_large(event);
            }
        }
        let looks = names.into_iter().map(|(name, large)| self.look_at(name, large));
        let looks: Vec<_> = looks.collect();
        let looks = stream::iter(looks).buffer_unordered(LOOKS).collect::<Vec<_>>();
        let told = tokio::select! {
            biased;
            () = self.sink.manner.stop.cancelled() => return false,
            told = looks => told,
        };
        let (mut seen, mut down, mut held) = (Seen::default(), None, false);
        for (name, told) in told {
            match told {
                Ok(largest) => seen.largest.extend(largest.map(|largest| (name, largest))),
                Err(Refusal::Down(cause)) => down = Some(cause),
                Err(Refusal::Held) => held = true,
                Err(refusal) => drop(seen.wrong.insert(name, refusal)),
            }
        }
        let goes_on = down.is_none() && !held;
        (self.seen, self.down) = (goes_on.then_some(seen), down);
        goes_on
    }

    /// Looks for a topic and, for large events, at how many bytes they may have there.
    async fn look_at(&self, name: &str, large: bool) -> (String, Result<Option<usize>, Refusal>) {
        let told = async {
            check(name)?;
            self.open()?;
            self.live.topic(name, self.until).await?;
            self.sink.topics.remember(name);
            Ok(if large { self.sink.largest(name).await } else { None })
        };
        (name.to_owned(), told.await)
    }

    /// Waits for places, as long as anything may be offered.
    async fn enter(&mut self) -> Option<Places<'a>> {
        let left = self.answers.iter().filter(|answer| answer.is_none()).count();
        tokio::select! {
            biased;
            () = self.sink.manner.stop.cancelled() => None,
            () = sleep_until(self.until) => None,
            () = self.live.fault() => None,
            places = self.sink.pace.enter(left) => Some(places),
        }
    }

    /// Hands over as many events as there is room for, and none once nothing may be offered any
    /// more. Returns which, and whether there are more that may be.
    async fn hand_over(&mut self, slots: &Arc<Slots>, room: usize) -> (Vec<usize>, bool) {
        let events = self.events;
        let mixed = self.names.windows(2).any(|names| names[0] != names[1]);
        let mut topics: HashMap<&str, usize> = HashMap::new();
        let (mut later, mut out) = (HashSet::new(), Vec::with_capacity(room.min(events.len())));
        for (at, event) in events.iter().enumerate() {
            let key = event.key.as_deref();
            if self.answers[at].is_some() || key.is_some_and(|key| later.contains(key)) {
                continue;
            }
            if key.is_some_and(|key| self.refused.contains(key)) {
                self.answers[at] = Some(Err(Refusal::Held));
                continue;
            }
            if out.len() == room {
                return (out, true);
            }
            if mixed && let Some(key) = key {
                let first = *topics.entry(key).or_insert(at);
                if self.names[first] != self.names[at] {
                    later.insert(key);
                    continue;
                }
            }
            if self.open().is_err() {
                return (out, false);
            }
            match self.offer(at, event, slots).await {
                Ok(()) => out.push(at),
                Err(refusal) => self.refuse(at, refusal),
            }
        }
        (out, !later.is_empty())
    }

    /// Hands one event to the library.
    async fn offer(&self, at: usize, event: &Event, slots: &Arc<Slots>) -> Result<(), Refusal> {
        let Written { headers, size } =
            wire::write(event, &self.sink.manner.source).map_err(Refusal::Reject)?;
        let topic = &*self.names[at];
        self.fits(topic, size)?;
        let mut record = BaseRecord::with_opaque_to(topic, slots.out(at));
        record = record.payload(event.payload.as_bytes()).headers(headers);
        if let Some(key) = &event.key {
            record = record.key(key.as_bytes());
        }
        loop {
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
                // Nobody tells when it has room: an answer comes before its event has left it.
                sleep(FULL).await;
                record = back;
                continue;
            }
            back.delivery_opaque.take_back();
            return Err(if full { Refusal::Held } else { not_taken(&error, topic) });
        }
    }

    /// Tells whether an event of this size can go to a topic, by what the look told.
    fn fits(&self, topic: &str, size: usize) -> Result<(), Refusal> {
        let Some(seen) = &self.seen else { return Err(Refusal::Held) };
        if let Some(refusal) = seen.wrong.get(topic) {
            return Err(refusal.clone());
        }
        match seen.largest.get(topic) {
            Some(&largest) if size > largest => {
                Err(Refusal::Reject(too_large(topic, size, largest)))
            }
            _ => Ok(()),
        }
    }

    /// Tells whether anything may still be offered.
    fn open(&self) -> Result<(), Refusal> {
        let stopped = self.sink.manner.stop.is_cancelled();
        let open = !stopped && Instant::now() < self.until && self.live.is_fit();
        if open { Ok(()) } else { Err(Refusal::Held) }
    }

    /// Waits for the answers to a wave that was handed over then.
    async fn wait(&self, slots: &Slots, handed: Instant) -> End {
        let timeout = self.sink.manner.timeout;
        // However late the last wave was, the publish ends by then.
        let last = self.until + timeout;
        let (all, late) = tokio::select! {
            biased;
            () = slots.all() => (true, false),
            () = self.live.fault() => (false, false),
            () = sleep_until(last.min(handed + timeout)) => (false, true),
        };
        if !all {
            self.live.purge();
            // What is not handed back even then has no answer, which is unknown.
            let _ = timeout_at(last.min(Instant::now() + RETURN), slots.all()).await;
        }
        End { told: slots.told(), cut: self.live.cut(), late }
    }

    fn judge(&self, at: usize, end: &End) -> Answer {
        let topic = &*self.names[at];
        let End { told, cut, late } = end;
        match told[at] {
            Some(Ok(put)) if put.offset >= 0 => {
                let id = format!("{topic}/{}/{}", put.partition, put.offset);
                Ok(Receipt { broker_id: Some(id) })
            }
            Some(Ok(_)) => Ok(Receipt { broker_id: None }),
            Some(Err(RDKafkaErrorCode::MessageSizeTooLarge)) if !self.live.alone => {
                Err(refusal(RDKafkaErrorCode::MessageBatchTooLarge, topic))
            }
            Some(Err(RDKafkaErrorCode::PurgeQueue)) if cut.is_none() && !*late => {
                Err(Refusal::Held)
            }
            None | Some(Err(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)) => {
                Err(Refusal::Unknown(self.unanswered(topic, cut.as_deref(), *late)))
            }
            Some(Err(error)) => Err(refusal(error, topic)),
        }
    }

    fn unanswered(&self, topic: &str, cut: Option<&str>, late: bool) -> Cause {
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

    fn refuse(&mut self, at: usize, refusal: Refusal) {
        self.refused.extend(self.events[at].key.as_deref());
        self.answers[at] = Some(Err(refusal));
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
        (self.live, self.seen) = (live, None);
        self.refused = take_back(&mut self.answers, self.events);
        let waits =
            |event: &Event| event.key.as_deref().is_some_and(|key| self.refused.contains(key));
        let all = self.answers.iter().zip(self.events);
        let untried = all.filter(|(answer, event)| answer.is_none() && !waits(event)).count();
        // Where all of them wait, nothing is tried.
        self.untried = untried.max(1);
    }

    /// Tells whether all that was taken back was offered again.
    pub(super) fn is_tried(&self) -> bool {
        self.untried == 0
    }

    /// Returns the answers. Once the cluster is out of reach, so is what was not offered.
    pub(super) fn answers(self) -> Vec<Answer> {
        let told = self.answers.iter().flatten().find_map(|answer| match answer {
            Err(Refusal::Down(cause)) => Some(cause.clone()),
            _ => None,
        });
        let missing = told.or(self.down).map_or(Refusal::Held, Refusal::Down);
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

/// Tells whether an event may be large with its attributes, which are not written yet.
fn may_be_large(event: &Event) -> bool {
    let headers = event.headers.0.iter().map(|(name, value)| name.len() + value.len());
    event.payload.len() + headers.sum::<usize>() > SMALL / 2
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
