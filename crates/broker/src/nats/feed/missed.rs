//! What JetStream has handed out and did not come here: in an answer that was lost with its
//! connection, or to a feed that has died. It comes again only when its lease is over; until then,
//! what is newer of its key waits.
//!
//! JetStream tells how far it has handed out, up to where all is ended, and how many of those
//! between are not, but not which. So all between is read from the stream, for its keys, and waited
//! for, also what is long ended behind one that is not; where there is too much of it, or it cannot
//! be read in time, all that is newer waits. Once as many are out as are here, nobody else has any,
//! and nothing waits any more. What another feed of the group works on looks the same as what was
//! lost, and is waited for in the same way, but only when this one joins anew.
//!
//! While somebody asks, it never waits longer than two leases of the server's, a little more. What
//! was due while nobody asked is waited for once more when somebody does, for a quarter of a lease,
//! and that eight times at the most (`hand/missed.rs`).

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use event::Refusal;
use futures_util::future::try_join_all;
use tokio::time::{Duration, Instant, timeout};

use super::super::link::Link;
use super::super::wire;
use super::pull::{Hand, Place, Well, failed, slack};
use crate::lines::{Halt, Missed};

/// How many of a subject are read for their keys at the most.
const MOST: usize = 1000;

/// How far one stream's consumer has been seen.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Known>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    /// The newest delivery, and the newest event of the stream, that came or was looked for.
    delivery: u64,
    event: u64,
    /// Until when the server may hand out to who is not there any more.
    doubted: Option<Instant>,
    /// When the last pull that was heard of ends at the server.
    ends: Option<Instant>,
    /// A session has begun, and nobody has looked yet.
    joins: bool,
}

/// Events of a stream that were handed out, after the first and up to the last; `None` if all that
/// was handed out is known.
type Gap = Option<(u64, u64)>;

impl Known {
    /// Takes what the server tells; returns what it has handed out that was not seen.
    fn told(&mut self, delivery: u64, event: u64, ended: u64) -> Gap {
        if delivery < self.delivery {
            // Another consumer of the same name.
            (self.delivery, self.event) = (0, 0);
        }
        let gap = (self.event.max(ended), event);
        let is_new = delivery > self.delivery;
        (self.delivery, self.event) = (delivery, self.event.max(event));
        is_new.then_some(gap)
    }
}

impl Seen {
    /// A session begins. What the last one asked for may still be handed out.
    pub(super) fn begin(&self) {
        let mut known = self.known();
        known.doubted = known.ends.filter(|ends| *ends > Instant::now());
        known.joins = true;
    }

    /// The server is asked, for so long.
    pub(super) fn asked(&self, wait: Duration) {
        self.known().ends = Some(Instant::now() + wait * 2);
    }

    /// One came. Tells whether one before it may have gone astray.
    pub(super) fn came(&self, delivery: u64, event: u64) -> bool {
        let known = self.known();
        if delivery > known.delivery + 1 && known.doubted.is_some() {
            return true;
        }
        drop(known);
        self.takes(delivery, event);
        false
    }

    /// One came, and nobody can tell more of those before it.
    pub(super) fn takes(&self, delivery: u64, event: u64) {
        let mut known = self.known();
        known.delivery = known.delivery.max(delivery);
        known.event = known.event.max(event);
    }

    /// Returns what the server tells now. To who may not ask, what it told at the join counts
    /// once: later it is old.
    fn newest<T>(&self, now: Option<T>, at_join: impl FnOnce() -> T) -> Option<T> {
        let joins = std::mem::take(&mut self.known().joins);
        now.or_else(|| joins.then(at_join))
    }

    /// Tells whether nothing goes astray any more, and that for the first time.
    pub(super) fn calms(&self) -> bool {
        let mut known = self.known();
        let over = known.doubted.is_some_and(|until| until <= Instant::now());
        if over {
            known.doubted = None;
        }
        over
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks how far the consumer is, and lets what is newer wait for what was handed out elsewhere: for
/// that of its key, as far as the keys can be read for so long.
pub(super) async fn look(
    link: &Link,
    well: &Well,
    context: &Context,
    hand: &Hand,
    patience: Duration,
) -> Result<(), Refusal> {
    let (at, here) = (well.at, here(well.at, hand));
    let told = well.seen.newest(ask(link, well).await?, || well.consumer.cached_info().clone());
    let Some(info) = told else { return Ok(()) };
    let (delivered, ended) = (info.delivered.stream_sequence, info.ack_floor.stream_sequence);
    let gap = well.seen.known().told(info.delivered.consumer_sequence, delivered, ended);
    if release(at, hand, &here, &info) {
        return Ok(());
    }
    let Some((after, last)) = gap else { return Ok(()) };
    // It was handed out before now; the server's lease is the longer one.
    let (wait, late) = (info.config.ack_wait, 2 * slack(hand.lease()));
    let missed = || {
        let due = Instant::now() + wait;
        let missed = Missed::new(due, due + late);
        hand.later(missed.until, wait + late, |(of, _)| *of == at);
        missed
    };
    missed();
    if after >= last {
        return Ok(());
    }
    let name = &info.stream_name;
    let reading = timeout(patience, read(context, &info, after, last));
    let found = unless_denied(link, format!("$JS.API.STREAM.MSG.GET.{name}"), reading).await;
    // While it was read, nobody asked for any of it.
    let missed = missed();
    match found.and_then(Result::ok).flatten() {
        Some(found) => {
            for (key, event) in found {
                if !hand.has(&(at, event)) {
                    hand.miss(&key, (at, event), missed);
                }
            }
        }
        None => hand.halt(Halt { after: (at, last), last: (at, u64::MAX), missed }),
    }
    Ok(())
}

/// Forgets what was missed and has been ended meanwhile, by whomever.
pub(super) async fn settle(link: &Link, well: &Well, hand: &Hand) {
    let here = here(well.at, hand);
    if let Ok(Some(info)) = ask(link, well).await {
        release(well.at, hand, &here, &info);
    }
}

/// Returns what of a stream was here before the server was asked.
fn here(at: usize, hand: &Hand) -> HashSet<Place> {
    hand.unended(|(of, _)| *of == at)
}

/// Forgets what was missed and is ended, by what the server told. Tells whether that is all: no
/// more are out than were here before it was asked, and still are. What came or was ended meanwhile
/// is perhaps not among those that it counted.
fn release(at: usize, hand: &Hand, before: &HashSet<Place>, info: &Info) -> bool {
    let still = hand.unended(|place| before.contains(place));
    let is_all = info.num_ack_pending <= still.len();
    let (delivered, floor) = (info.delivered.stream_sequence, info.ack_floor.stream_sequence);
    let ended = if is_all { delivered } else { floor };
    hand.settled(|(of, event): &Place| *of == at && *event <= ended);
    is_all
}

/// Asks how far the consumer is; nothing if that may not be asked.
async fn ask(link: &Link, well: &Well) -> Result<Option<Info>, Refusal> {
    let known = well.consumer.cached_info();
    let subject = format!("$JS.API.CONSUMER.INFO.{}.{}", known.stream_name, known.name);
    match unless_denied(link, subject, well.consumer.get_info()).await {
        Some(told) => told.map(Some).map_err(|error| failed(&well.consumer, &error)),
        None => Ok(None),
    }
}

async fn unless_denied<T>(
    link: &Link,
    subject: String,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let since = Instant::now();
    tokio::select! {
        told = asking => Some(told),
        () = link.denied(&subject, since) => None,
    }
}

/// Reads the keys of some events, each with its place; nothing if there are too many of them, or
/// they may not be read.
async fn read(context: &Context, info: &Info, after: u64, last: u64) -> Option<Vec<(String, u64)>> {
    let stream = context.get_stream_no_info(&info.stream_name).await.ok()?;
    let (one, more) = (&info.config.filter_subject, &info.config.filter_subjects);
    let subjects = more.iter().chain(Some(one).filter(|one| !one.is_empty()));
    let reading = subjects.map(|subject| read_of(&stream, subject, after, last));
    Some(try_join_all(reading).await.ok()?.concat())
}

async fn read_of<I>(
    stream: &Stream<I>,
    subject: &str,
    after: u64,
    last: u64,
) -> Result<Vec<(String, u64)>, ()> {
    let (mut found, mut from) = (Vec::new(), after + 1);
    for _ in 0..MOST {
        let next = match stream.get_first_raw_message_by_subject(subject, from).await {
            Ok(next) if next.sequence <= last => next,
            Ok(_) => return Ok(found),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(found);
            }
            Err(_) => return Err(()),
        };
        from = next.sequence + 1;
        let event = wire::open(Some(&next.headers), next.payload, &next.subject);
        if let Some(key) = event.ok().and_then(|event| event.key) {
            found.push((key, next.sequence));
        }
    }
    Err(())
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::consumer::Config;
    use event::{Event, Handle};
    use serde_json::json;

    use super::super::pull::Ticket;
    use super::*;
    use crate::hand::Arrival;

    #[test]
    fn what_was_handed_out_and_not_seen_lies_behind_what_was_seen_or_ended() {
        let mut known = Known::default();
        assert_eq!(known.told(0, 0, 0), None);
        assert_eq!(known.told(5, 9, 4), Some((4, 9)), "the first look: all that is not ended");
        assert_eq!(known.told(5, 9, 4), None, "it was looked for");
        assert_eq!(known.told(7, 12, 4), Some((9, 12)));
        assert_eq!(known.told(9, 12, 11), Some((12, 12)), "only what had come before came again");
        assert_eq!(known.told(3, 8, 2), Some((2, 8)), "a consumer that was made anew");
    }

    #[test]
    fn what_was_told_at_the_join_counts_once_and_not_beside_what_is_told_now() {
        let seen = Seen::default();
        assert_eq!(seen.newest(None, || 1), None);
        seen.begin();
        assert_eq!((seen.newest(None, || 1), seen.newest(None, || 1)), (Some(1), None));
        seen.begin();
        assert_eq!((seen.newest(Some(2), || 1), seen.newest(None, || 1)), (Some(2), None));
    }

    fn told(delivered: u64, ended: u64, out: usize) -> Info {
        let at = |event| json!({ "consumer_seq": event, "stream_seq": event });
        let (time, config) = ("2026-11-19T00:00:00Z", Config::default());
        let info = json!({ "stream_name": "S", "name": "g", "created": time, "config": config,
            "delivered": at(delivered), "ack_floor": at(ended), "num_ack_pending": out,
            "num_redelivered": 0, "num_waiting": 0, "num_pending": 0 });
        serde_json::from_value(info).unwrap()
    }

    async fn next(hand: &Hand) -> Option<Handle> {
        let next = hand.next(Instant::now()).await.unwrap();
        next.map(|delivery| delivery.handle)
    }

    #[tokio::test(start_paused = true)]
    async fn once_no_more_are_out_than_are_here_nothing_waits_for_what_was_missed() {
        let lease = Duration::from_secs(9);
        let (hand, until) = (Hand::new(8, lease), Instant::now() + lease);
        let arrive = |event: u64, key: &str| {
            let of = Ok(Event::new("t", "T", "{}").key(key));
            let (reply, subject) = ("r".into(), "t".to_owned());
            let ticket = Ticket { reply, subject, headers: None, payload: "{}".into() };
            let arrival = Arrival { event: of, origin: String::new(), attempt: 1, ticket, until };
            hand.arrive((0, event), arrival);
        };
        for event in 5..9 {
            hand.miss("a", (0, event), Missed::new(until, until));
        }
        arrive(20, "a");
        let before = here(0, &hand);
        arrive(21, "a");
        assert!(!release(0, &hand, &before, &told(20, 4, 2)), "21 came later: 5 may be out");
        assert_eq!(next(&hand).await, None);
        arrive(5, "a");
        let first = next(&hand).await.unwrap();
        let before = here(0, &hand);
        hand.ending(first).unwrap();
        assert!(!release(0, &hand, &before, &told(21, 4, 3)), "5 may be ended: 6 may be out");
        hand.end(first);
        assert_eq!(next(&hand).await, None, "it waits for 6");
        assert!(release(0, &hand, &here(0, &hand), &told(21, 4, 2)));
        assert!(next(&hand).await.is_some(), "20 and 21 are all that is out");
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_missed_only_while_an_old_pull_may_still_be_answered() {
        let (seen, wait) = (Seen::default(), Duration::from_secs(2));
        seen.begin();
        assert!(!seen.came(1, 1) && !seen.came(3, 3), "another feed of the group has it");
        seen.asked(wait);
        seen.begin();
        assert!(!seen.came(4, 4), "it is the next");
        assert!(seen.came(6, 6) && seen.came(6, 6), "until somebody has looked");
        assert_eq!(seen.known().told(6, 6, 0), Some((4, 6)));
        assert!(!seen.came(6, 6) && !seen.came(7, 7) && !seen.calms());
        assert!(seen.came(9, 9), "8 may have gone astray");
        seen.takes(9, 9);
        assert!(!seen.came(10, 10), "who may not ask does not ask for each");
        tokio::time::advance(wait * 2).await;
        assert!(seen.calms() && !seen.calms(), "one last look");
        assert!(!seen.came(12, 12));
    }
}
