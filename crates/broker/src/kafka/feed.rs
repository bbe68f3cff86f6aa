//! The feed `kafka`: a member of a consumer group that commits only what was acked.
//!
//! A thread of its own polls without end, so that a consumer that works for long is not expelled;
//! what came waits here. Order per key is kept by the partition and by [`Part`]. Acks are told to
//! the group within a moment, and before a partition goes to another member; what was acked in
//! the last moment before a crash comes again. There are no leases: what is in hand stays so until
//! it is ended, or the partition goes. Only what could not be given up comes again after a lease,
//! if its holder does not try again.

mod grave;
mod member;
mod trouble;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use event::{Cause, Code, Delivery, Feed, Handle, Nack, Refusal};
use rdkafka::message::{Headers, Message, OwnedMessage};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use self::grave::Grave;
use self::member::{Member, is_full};
use super::access::Cluster;
use super::part::{Arrival, Part, Same};
use super::{Access, why, wire};
use crate::manner::Subscription;

/// How long leaving a group may take.
const LEAVE: Duration = Duration::from_secs(8);

/// Takes events in for a group.
pub struct KafkaFeed {
    shared: Arc<Shared>,
    member: Mutex<Option<Member>>,
    grave: Grave,
    cluster: Cluster,
    subscription: Subscription,
}

impl KafkaFeed {
    /// Checks the address. The group is joined at the first call of `next`.
    pub fn new(access: &Access, subscription: Subscription) -> Result<KafkaFeed, Cause> {
        let invalid = |why: &str| Cause::new(Code::ConfigInvalid, why);
        if subscription.group.is_empty() || subscription.topics.is_empty() {
            return Err(invalid("a feed of Kafka needs a group and a topic"));
        }
        let cluster = Cluster::new(access)?;
        let shared = Arc::new(Shared::new(subscription.most));
        let grave = Grave::new(&cluster, &subscription);
        let member = Mutex::default();
        Ok(KafkaFeed { shared, member, grave, cluster, subscription })
    }

    fn join(&self) {
        let mut member = self.member.lock().unwrap_or_else(PoisonError::into_inner);
        if member.is_none() && !self.shared.state().closed {
            let shared = Arc::clone(&self.shared);
            *member = Some(Member::start(shared, &self.cluster, &self.subscription));
        }
    }
}

impl fmt::Debug for KafkaFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaFeed").field("group", &self.subscription.group).finish_non_exhaustive()
    }
}

impl Drop for KafkaFeed {
    fn drop(&mut self) {
        self.shared.close();
    }
}

#[async_trait]
impl Feed for KafkaFeed {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        self.join();
        let until = Instant::now() + at_most;
        loop {
            let ready = self.shared.ready.notified();
            let found = self.shared.state().next(Instant::now());
            let wake = match found {
                Found::Delivery(delivery) => return Ok(Some(*delivery)),
                Found::Trouble(refusal) => return Err(why::told(&self.cluster, refusal).await),
                Found::Nothing(wake) => wake.map_or(until, |wake| wake.min(until)),
            };
            if Instant::now() >= until {
                return Ok(None);
            }
            tokio::select! {
                () = ready => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        let ended = self.shared.state().end(handle);
        self.shared.ready.notify_waiters();
        ended
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        match nack {
            Nack::Again(after) => {
                let ended = self.shared.state().again(handle, Instant::now() + after);
                self.shared.ready.notify_waiters();
                ended
            }
            Nack::Dead(cause) => {
                let record = self.shared.state().take_up(handle).cloned().ok_or_else(stale)?;
                let (shared, lease) = (&*self.shared, self.subscription.lease);
                let _giving_up = GivingUp { shared, handle, lease };
                self.grave.bury(&record, &cause).await?;
                self.ack(handle).await
            }
        }
    }

    async fn extend(&self, handle: Handle, by: Duration) -> Result<(), Refusal> {
        let mut state = self.shared.state();
        state.held(handle).map(drop).ok_or_else(stale)?;
        if let Some(at) = state.owed.get_mut(&handle.0) {
            *at = Instant::now() + by;
        }
        Ok(())
    }

    async fn close(&self) {
        self.shared.close();
        let member = self.member.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(member) = member {
            // Whoever cannot be told notices in the end by itself.
            let _ = timeout(LEAVE, member.left()).await;
        }
        self.grave.close().await;
    }
}

/// Somebody gives an event up. If that fails, or is broken off, there is a lease to try again.
struct GivingUp<'a> {
    shared: &'a Shared,
    handle: Handle,
    lease: Duration,
}

impl Drop for GivingUp<'_> {
    fn drop(&mut self) {
        self.shared.state().owe(self.handle, Instant::now() + self.lease);
        // Whoever waits has to know when it comes again.
        self.shared.ready.notify_waiters();
    }
}

type Place = (String, i32);

/// What the thread and the callers share.
struct Shared {
    state: Mutex<State>,
    /// Something may be handed out, or has gone wrong.
    ready: Notify,
    closing: watch::Sender<bool>,
}

struct State {
    most: usize,
    parts: BTreeMap<Place, Part<OwnedMessage>>,
    held: HashMap<u64, (Place, i64)>,
    /// Could not be given up: when each comes again, unless its holder ends it before.
    owed: HashMap<u64, Instant>,
    numbers: u64,
    /// The partition that is asked first, so that each has its turn.
    turn: usize,
    trouble: Option<Refusal>,
    closed: bool,
}

enum Found {
    Delivery(Box<Delivery>),
    Trouble(Refusal),
    /// Nothing, and when that may change by itself.
    Nothing(Option<Instant>),
}

impl Shared {
    fn new(most: usize) -> Shared {
        let state = State {
            most: most.max(1),
            parts: BTreeMap::new(),
            held: HashMap::new(),
            owed: HashMap::new(),
            numbers: 0,
            turn: 0,
            trouble: None,
            closed: false,
        };
        let (state, ready) = (Mutex::new(state), Notify::new());
        Shared { state, ready, closing: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.state().closed = true;
        self.closing.send_replace(true);
        self.ready.notify_waiters();
    }
}

impl Same for OwnedMessage {
    fn is(&self, other: &OwnedMessage) -> bool {
        let headers = |record: &OwnedMessage| -> Vec<(String, Option<Vec<u8>>)> {
            let all = record.headers().into_iter().flat_map(Headers::iter);
            all.map(|it| (it.key.to_owned(), it.value.map(<[u8]>::to_vec))).collect()
        };
        self.timestamp() == other.timestamp()
            && (self.key(), self.payload()) == (other.key(), other.payload())
            && headers(self) == headers(other)
    }

    fn bytes(&self) -> usize {
        let headers = self.headers().into_iter().flat_map(Headers::iter);
        let headers = headers.map(|it| it.key.len() + it.value.map_or(0, <[u8]>::len));
        let rest = [self.key(), self.payload()].into_iter().flatten().map(<[u8]>::len);
        headers.chain(rest).sum()
    }
}

impl State {
    /// Puts in what came. Returns whether enough of its partition waits and, if its offsets went
    /// back, the one that was expected; nothing if the partition is not ours.
    fn arrive(&mut self, place: &Place, record: OwnedMessage) -> Option<(bool, Option<i64>)> {
        let part = self.parts.get_mut(place)?;
        let (offset, key) = (record.offset(), record.key().map(<[u8]>::to_vec));
        let Arrival { back_from, instead } = part.arrive(offset, key, record);
        let full = is_full(part, self.most, 1);
        if instead {
            // What its holder has is not in the log any more: it ends nothing.
            self.drop_held(|held, at| held == place && at == offset);
        }
        Some((full, back_from))
    }

    fn next(&mut self, now: Instant) -> Found {
        let over: Vec<u64> =
            self.owed.iter().filter(|(_, at)| **at <= now).map(|(handle, _)| *handle).collect();
        for handle in over {
            // Its partition may have gone, and it with it.
            let _ = self.again(Handle(handle), now);
        }
        if self.held.len() < self.most
            && !self.closed
            && let Some(delivery) = self.hand_out(now)
        {
            return Found::Delivery(Box::new(delivery));
        }
        if let Some(refusal) = self.trouble.take() {
            return Found::Trouble(refusal);
        }
        let waking = self.parts.values().filter_map(Part::wake);
        Found::Nothing(waking.chain(self.owed.values().copied()).filter(|at| *at > now).min())
    }

    fn hand_out(&mut self, now: Instant) -> Option<Delivery> {
        self.turn = self.turn.wrapping_add(1);
        let count = self.parts.len().max(1);
        let (after, before) = (self.turn % count, self.turn % count);
        let order = (after..count).chain(0..before);
        for number in order {
            let Some((place, part)) = self.parts.iter_mut().nth(number) else { continue };
            let Some((offset, attempt, record)) = part.next(now) else { continue };
            self.numbers += 1;
            let handle = Handle(self.numbers);
            let data = Bytes::copy_from_slice(record.payload().unwrap_or_default());
            let event = wire::read(record.headers(), data, &place.0);
            let origin = format!("{}/{}/{offset}", place.0, place.1);
            self.held.insert(handle.0, (place.clone(), offset));
            return Some(Delivery { event, origin, attempt, handle });
        }
        None
    }

    fn end(&mut self, handle: Handle) -> Result<(), Refusal> {
        self.owed.remove(&handle.0);
        let (place, offset) = self.held.remove(&handle.0).ok_or_else(stale)?;
        self.parts.get_mut(&place).ok_or_else(stale)?.end(offset);
        Ok(())
    }

    fn again(&mut self, handle: Handle, at: Instant) -> Result<(), Refusal> {
        self.owed.remove(&handle.0);
        let (place, offset) = self.held.remove(&handle.0).ok_or_else(stale)?;
        self.parts.get_mut(&place).ok_or_else(stale)?.again(offset, at);
        Ok(())
    }

    fn held(&self, handle: Handle) -> Option<&OwnedMessage> {
        let (place, offset) = self.held.get(&handle.0)?;
        self.parts.get(place)?.held(*offset)
    }

    /// Returns what is in hand and about to be given up.
    fn take_up(&mut self, handle: Handle) -> Option<&OwnedMessage> {
        self.owed.remove(&handle.0);
        self.held(handle)
    }

    /// Lets what is still in hand come again at a time, unless its holder ends it before.
    fn owe(&mut self, handle: Handle, at: Instant) {
        if self.held.contains_key(&handle.0) {
            self.owed.insert(handle.0, at);
        }
    }

    /// Forgets a partition that is another member's now, with all that was in hand of it.
    fn forget(&mut self, place: &Place) {
        self.parts.remove(place);
        self.drop_held(|held, _| held == place);
    }

    /// Forgets all partitions, whose member is no more.
    fn forget_all(&mut self) {
        self.parts.clear();
        self.drop_held(|_, _| true);
    }

    fn drop_held(&mut self, is: impl Fn(&Place, i64) -> bool) {
        self.held.retain(|_, (place, offset)| !is(place, *offset));
        self.owed.retain(|handle, _| self.held.contains_key(handle));
    }
}

/// The answer to whoever ends what it no longer has.
fn stale() -> Refusal {
    let detail = "it is not in hand: it was ended, or its partition went to another consumer";
    Refusal::Reject(Cause::new(Code::SinkRefused, detail))
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Timestamp;

    use super::*;

    fn record(topic: &str, partition: i32, offset: i64, payload: &str) -> OwnedMessage {
        let (payload, time) = (Some(payload.into()), Timestamp::NotAvailable);
        OwnedMessage::new(payload, None, topic.to_owned(), time, partition, offset, None)
    }

    fn fill(state: &mut State, records: &[(&str, i32, i64)]) {
        for (topic, partition, offset) in records {
            let place = ((*topic).to_owned(), *partition);
            state.parts.entry(place.clone()).or_insert_with(|| Part::new(None));
            state.arrive(&place, record(topic, *partition, *offset, "{}")).unwrap();
        }
    }

    fn state(records: &[(&str, i32, i64)]) -> State {
        let mut state = Shared::new(8).state.into_inner().unwrap();
        fill(&mut state, records);
        state
    }

    fn take(state: &mut State) -> Option<Delivery> {
        match state.next(Instant::now()) {
            Found::Delivery(delivery) => Some(*delivery),
            _ => None,
        }
    }

    #[test]
    fn partitions_take_turns() {
        let mut state = state(&[("a", 0, 1), ("a", 0, 2), ("b", 0, 1), ("b", 0, 2)]);
        let first = [take(&mut state).unwrap().origin, take(&mut state).unwrap().origin];
        assert_ne!(first[0][..1], first[1][..1], "{first:?}");
    }

    #[test]
    fn a_handle_of_a_partition_that_went_ends_nothing() {
        let mut state = state(&[("a", 0, 1)]);
        let delivery = take(&mut state).unwrap();
        assert!(delivery.event.is_err(), "it has no envelope");
        let place = ("a".to_owned(), 0);
        state.forget(&place);
        state.parts.insert(place.clone(), Part::new(None));
        assert!(state.end(delivery.handle).is_err());
        assert!(state.again(delivery.handle, Instant::now()).is_err());
        assert!(state.held(delivery.handle).is_none());
    }

    #[tokio::test]
    async fn what_is_in_hand_of_a_member_that_is_no_more_ends_nothing_of_the_next() {
        let access = Access::open("kafka://127.0.0.1:1");
        let records = [("a", 0, 1), ("a", 1, 1)];
        for (filled, left) in [(false, 0), (true, 2)] {
            let feed = KafkaFeed::new(&access, Subscription::new("group", &["a"])).unwrap();
            let two = || [(); 2].map(|()| take(&mut feed.shared.state()).unwrap());
            fill(&mut feed.shared.state(), &records);
            let old = two();
            feed.shared.state().owe(old[0].handle, Instant::now() + feed.subscription.lease);
            feed.shared.state().forget_all();
            let nothing = feed.shared.state().next(Instant::now());
            assert!(matches!(nothing, Found::Nothing(None)), "nothing is left, or owed");
            if filled {
                fill(&mut feed.shared.state(), &records);
                assert!(two().iter().all(|new| new.attempt == 1));
            }
            for Delivery { handle, .. } in &old {
                assert_eq!(feed.extend(*handle, Duration::ZERO).await, Err(stale()));
            }
            let again = Nack::Again(Duration::ZERO);
            assert_eq!(feed.nack(old[0].handle, again).await, Err(stale()));
            assert_eq!(feed.ack(old[1].handle).await, Err(stale()));
            let state = feed.shared.state();
            let not_ended = state.parts.values().map(Part::len).sum::<usize>();
            assert_eq!((not_ended, state.held.len(), state.owed.len()), (left, left, 0));
        }
    }

    #[test]
    fn a_handle_of_what_the_log_lost_does_not_end_what_stands_there_now() {
        let mut state = state(&[("a", 0, 5), ("a", 0, 6)]);
        let (lost, kept) = (take(&mut state).unwrap(), take(&mut state).unwrap());
        let place = ("a".to_owned(), 0);
        let came = state.arrive(&place, record("a", 0, 5, "another"));
        assert_eq!(came, Some((false, Some(7))));
        assert_eq!(state.arrive(&place, record("a", 0, 6, "{}")), Some((false, None)));
        assert!(state.end(lost.handle).is_err() && state.held(lost.handle).is_none());
        assert!(state.end(kept.handle).is_ok(), "it is there as it was");
        assert_eq!(take(&mut state).unwrap().origin, "a/0/5");
        assert!(take(&mut state).is_none());
    }

    #[tokio::test]
    async fn what_could_not_be_given_up_stays_in_hand_for_a_lease_and_then_comes_again() {
        let access = Access::open("kafka://127.0.0.1:1");
        let mut subscription = Subscription::new("group", &["a"]);
        subscription.most = 1;
        let lease = subscription.lease;
        let feed = KafkaFeed::new(&access, subscription).unwrap();
        fill(&mut feed.shared.state(), &[("a", 0, 1)]);
        let first = take(&mut feed.shared.state()).unwrap();
        let why = || Nack::Dead(Cause::new(Code::BadEvent, "no such order"));
        for _ in 0..2 {
            let refused = feed.nack(first.handle, why()).await;
            assert!(matches!(refused, Err(Refusal::Down(_))), "nobody is there: {refused:?}");
            feed.extend(first.handle, lease).await.expect("it is still in hand");
        }
        let soon = Instant::now() + lease / 2;
        let found = feed.shared.state().next(soon);
        assert!(matches!(found, Found::Nothing(Some(at)) if at > soon), "it is in hand");
        let Found::Delivery(again) = feed.shared.state().next(Instant::now() + lease) else {
            panic!("it does not come again")
        };
        assert_eq!((again.attempt, &again.origin), (2, &first.origin));
        assert!(feed.ack(first.handle).await.is_err(), "another has it now");
        assert!(feed.ack(again.handle).await.is_ok());
        assert_eq!(feed.shared.state().owed.len(), 0);
    }

    #[test]
    fn trouble_is_told_once_and_after_what_there_is() {
        let mut state = state(&[("a", 0, 1)]);
        state.trouble = Some(stale());
        assert!(take(&mut state).is_some());
        assert!(matches!(state.next(Instant::now()), Found::Trouble(_)));
        assert!(matches!(state.next(Instant::now()), Found::Nothing(None)));
    }
}
