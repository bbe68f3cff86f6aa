//! What JetStream has handed out and did not come here: in an answer that was lost with its
//! connection, or to a feed that has died. It comes again only when its lease is over; until then,
//! what is newer of its key waits.
//!
//! JetStream tells how far it has handed out, and up to where all is ended, but not what lies
//! between. So that is read from the stream, for its keys; where it cannot be read, all that is
//! newer waits. What another feed of the group works on looks the same, and is waited for in the
//! same way, but only when this one joins anew. It never waits longer than a lease, a little more.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use event::Refusal;
use futures_util::future::try_join_all;
use tokio::time::{Duration, Instant};

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
    }

    /// The server is asked, for so long.
    pub(super) fn asked(&self, wait: Duration) {
        self.known().ends = Some(Instant::now() + wait * 2);
    }

    /// One came. Tells whether one before it may have gone astray.
    pub(super) fn came(&self, delivery: u64, event: u64) -> bool {
        let mut known = self.known();
        if delivery > known.delivery + 1 && known.doubted.is_some() {
            return true;
        }
        known.delivery = known.delivery.max(delivery);
        known.event = known.event.max(event);
        false
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

/// Asks how far the consumer is, and lets what is newer wait for what was handed out elsewhere.
pub(super) async fn look(
    link: &Link,
    well: &Well,
    context: &Context,
    hand: &Hand,
) -> Result<(), Refusal> {
    let at = well.at;
    let info = ask(link, well).await?;
    let (delivered, ended) = (info.delivered.stream_sequence, info.ack_floor.stream_sequence);
    let gap = well.seen.known().told(info.delivered.consumer_sequence, delivered, ended);
    let Some((after, last)) = gap.filter(|_| info.num_ack_pending > 0) else { return Ok(()) };
    // It was handed out before now; the server's lease is the longer one.
    let due = Instant::now() + info.config.ack_wait;
    let missed = Missed { due, until: due + 2 * slack(hand.lease()) };
    hand.later(missed, |(of, _)| *of == at);
    if after >= last {
        return Ok(());
    }
    let name = &info.stream_name;
    let reading = read(context, &info, after, last);
    let found = unless_denied(link, format!("$JS.API.STREAM.MSG.GET.{name}"), reading).await;
    match found.flatten() {
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
    if let Ok(info) = ask(link, well).await {
        let ended = info.ack_floor.stream_sequence;
        hand.settled(|(of, event): &Place| *of == well.at && *event <= ended);
    }
}

/// Asks how far the consumer is. Who may not ask knows what was told when it joined.
async fn ask(link: &Link, well: &Well) -> Result<Info, Refusal> {
    let known = well.consumer.cached_info();
    let subject = format!("$JS.API.CONSUMER.INFO.{}.{}", known.stream_name, known.name);
    match unless_denied(link, subject, well.consumer.get_info()).await {
        Some(told) => told.map_err(|error| failed(&well.consumer, &error)),
        None => Ok(known.clone()),
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
    use super::*;

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
        tokio::time::advance(wait * 2).await;
        assert!(seen.calms() && !seen.calms(), "one last look");
        assert!(!seen.came(9, 9));
    }
}
