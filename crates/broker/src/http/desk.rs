//! The desk between requests that wait for their answer and a consumer that works.
//!
//! A request waits until what it brought was handed out and ended. Of one key, one is in hand at a
//! time. Whatever is not ended in time is answered so that its sender brings it again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Cause, Delivery, Handle};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::arrive::Arrived;

/// How a request ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was taken in.
    Taken,
    /// It shall be brought again, after a while.
    Again(Duration),
    /// It shall be brought no more.
    Dead(Cause),
    /// Nobody ended it in time: it may have been taken in.
    Late,
    /// So many wait already that it was not let in.
    Full,
    /// Nobody takes anything any more.
    Closed,
}

/// How much fits on a desk, and how long it may lie there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Deliveries in hand at once.
    pub(super) most: usize,
    /// Requests that wait to be handed out.
    pub(super) waiting: usize,
    /// How long a request may wait to be handed out.
    pub(super) patience: Duration,
    /// How long a delivery stays with its holder.
    pub(super) lease: Duration,
}

/// The desk.
#[derive(Debug)]
pub(super) struct Desk {
    size: Size,
    state: Mutex<State>,
    /// Something may be handed out.
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    last: u64,
    waiting: VecDeque<Waiting>,
    in_hand: HashMap<u64, InHand>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    arrived: Arrived,
    origin: String,
    until: Instant,
    answer: oneshot::Sender<End>,
}

#[derive(Debug)]
struct InHand {
    key: Option<String>,
    until: Instant,
    answer: oneshot::Sender<End>,
}

impl Desk {
    pub(super) fn new(size: Size) -> Desk {
        Desk { size, state: Mutex::default(), news: Notify::new() }
    }

    /// Lays an arrival on the desk and waits for its end. Whoever gives up before it was handed out
    /// takes it away again; what is in hand stays there until its holder ends it or is late.
    pub(super) async fn bring(&self, arrived: Arrived, origin: &str) -> (u64, End) {
        let (answer, mut answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            if state.closed {
                return (0, End::Closed);
            }
            if state.waiting.len() >= self.size.waiting {
                return (0, End::Full);
            }
            state.last += 1;
            let (number, until) = (state.last, Instant::now() + self.size.patience);
            let origin = format!("{origin} #{number}");
            state.waiting.push_back(Waiting { number, arrived, origin, until, answer });
            number
        };
        self.news.notify_one();
        let _away = Away { desk: self, number };
        loop {
            let until = self.until(number);
            tokio::select! {
                end = &mut answered => return (number, end.unwrap_or(End::Late)),
                () = sleep_until(until) => self.sweep(),
            }
        }
    }

    /// Waits for something to hand out; `None` when the desk is closed.
    pub(super) async fn next(&self, at_most: Duration) -> Option<Option<Delivery>> {
        let end = Instant::now() + at_most;
        loop {
            let news = self.news.notified();
            self.sweep();
            let soonest = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                if let Some(delivery) = state.hand_out(&self.size) {
                    // One ring may stand for several arrivals: whoever took one passes it on.
                    self.news.notify_one();
                    return Some(Some(delivery));
                }
                state.in_hand.values().map(|held| held.until).min()
            };
            tokio::select! {
                () = news => {}
                () = sleep_until(soonest.map_or(end, |soonest| soonest.min(end))) => {}
            }
            if Instant::now() >= end {
                let last = self.state().hand_out(&self.size);
                return Some(last);
            }
        }
    }

    /// Ends what is in hand. Returns `false` when it no longer is.
    pub(super) fn end(&self, handle: Handle, end: End) -> bool {
        self.sweep();
        let Some(held) = self.state().in_hand.remove(&handle.0) else { return false };
        // Whoever brought it may have given up; then it comes again.
        let _ = held.answer.send(end);
        self.news.notify_one();
        true
    }

    /// Lets a holder keep what it has. Returns `false` when it no longer has it.
    pub(super) fn extend(&self, handle: Handle, by: Duration) -> bool {
        self.sweep();
        match self.state().in_hand.get_mut(&handle.0) {
            Some(held) => held.until = Instant::now() + by,
            None => return false,
        }
        true
    }

    /// Sends everybody away. What is in hand may have been taken in.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for one in state.waiting.drain(..) {
            let _ = one.answer.send(End::Closed);
        }
        for (_, held) in state.in_hand.drain() {
            let _ = held.answer.send(End::Late);
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// Answers for all that are late.
    fn sweep(&self) {
        let (now, mut state) = (Instant::now(), self.state());
        let mut freed = false;
        for held in state.in_hand.extract_if(|_, held| held.until <= now) {
            let _ = held.1.answer.send(End::Late);
            freed = true;
        }
        while let Some(at) = state.waiting.iter().position(|one| one.until <= now) {
            if let Some(late) = state.waiting.remove(at) {
                let _ = late.answer.send(End::Late);
            }
        }
        drop(state);
        if freed {
            self.news.notify_one();
        }
    }

    /// Returns until when a request need not be looked at.
    fn until(&self, number: u64) -> Instant {
        let state = self.state();
        let held = state.in_hand.get(&number).map(|held| held.until);
        let waiting = || state.waiting.iter().find(|one| one.number == number);
        held.or_else(|| waiting().map(|one| one.until)).unwrap_or_else(Instant::now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the first that waits and whose key is in nobody's hand.
    fn hand_out(&mut self, size: &Size) -> Option<Delivery> {
        if self.in_hand.len() >= size.most {
            return None;
        }
        let busy = |key: &Option<String>| {
            key.is_some() && self.in_hand.values().any(|held| held.key == *key)
        };
        let free = self.waiting.iter().position(|one| !busy(&key(&one.arrived)))?;
        let one = self.waiting.remove(free)?;
        let (key, until) = (key(&one.arrived), Instant::now() + size.lease);
        self.in_hand.insert(one.number, InHand { key, until, answer: one.answer });
        let handle = Handle(one.number);
        Some(Delivery { event: one.arrived, origin: one.origin, attempt: 1, handle })
    }
}

fn key(arrived: &Arrived) -> Option<String> {
    arrived.as_ref().ok().and_then(|event| event.key.clone())
}

/// Takes away what its sender no longer waits for, unless somebody works on it.
struct Away<'a> {
    desk: &'a Desk,
    number: u64,
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.desk.state().waiting.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Code, Event};
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SIZE: Size = Size { most: 4, waiting: 3, patience: SECOND, lease: SECOND };

    fn event(key: &str) -> Event {
        Event::new("t", "T", "{}").key(key)
    }

    /// Brings events one after another, each on the desk before the next.
    async fn bring(desk: &Arc<Desk>, keys: &[&str]) -> Vec<JoinHandle<(u64, End)>> {
        let mut brought = Vec::new();
        for key in keys {
            let (desk, event) = (desk.clone(), event(key));
            brought.push(tokio::spawn(async move { desk.bring(Ok(event), "/").await }));
            yield_now().await;
        }
        brought
    }

    async fn next(desk: &Desk) -> Option<u64> {
        desk.next(Duration::ZERO).await.flatten().map(|delivery| delivery.handle.0)
    }

    #[tokio::test]
    async fn each_request_gets_the_end_of_its_own() {
        let desk = Arc::new(Desk::new(SIZE));
        let brought = bring(&desk, &["a", "b", "c"]).await;
        let ends =
            [End::Dead(Cause::new(Code::BadEvent, "no")), End::Taken, End::Again(3 * SECOND)];
        let mut handles = Vec::new();
        while let Some(handle) = next(&desk).await {
            handles.push(handle);
        }
        for (handle, end) in handles.iter().zip(&ends).rev() {
            assert!(desk.end(Handle(*handle), end.clone()));
            assert!(!desk.end(Handle(*handle), End::Taken), "it was ended");
        }
        for (brought, end) in brought.into_iter().zip(ends) {
            assert_eq!(brought.await.unwrap().1, end);
        }
    }

    #[tokio::test]
    async fn of_one_key_one_is_in_hand_and_no_more_than_may_be() {
        let desk = Arc::new(Desk::new(Size { most: 2, ..SIZE }));
        let _brought = bring(&desk, &["a", "a", "b"]).await;
        assert_eq!((next(&desk).await, next(&desk).await), (Some(1), Some(3)));
        assert_eq!(next(&desk).await, None, "two are in hand, and a is");
        assert!(desk.end(Handle(3), End::Taken));
        assert_eq!(next(&desk).await, None, "a is in hand");
        assert!(desk.end(Handle(1), End::Taken));
        assert_eq!(next(&desk).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_late_is_answered_and_its_handle_is_stale() {
        let desk = Arc::new(Desk::new(SIZE));
        let mut brought = bring(&desk, &["a", "b"]).await;
        assert_eq!(next(&desk).await, Some(1));
        let began = Instant::now();
        assert_eq!(brought.remove(1).await.unwrap().1, End::Late, "it was not handed out");
        assert_eq!(brought.remove(0).await.unwrap().1, End::Late, "it was not ended");
        assert_eq!(began.elapsed().as_secs(), 1);
        assert!(!desk.end(Handle(1), End::Taken) && !desk.extend(Handle(1), SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_extended_is_not_late() {
        let desk = Arc::new(Desk::new(SIZE));
        let mut brought = bring(&desk, &["a"]).await;
        assert_eq!(next(&desk).await, Some(1));
        for _ in 0..5 {
            tokio::time::sleep(SECOND / 2).await;
            assert!(desk.extend(Handle(1), SECOND));
        }
        assert!(desk.end(Handle(1), End::Taken));
        assert_eq!(brought.remove(0).await.unwrap().1, End::Taken);
    }

    #[tokio::test]
    async fn whoever_finds_no_room_is_told_and_whoever_gives_up_makes_some() {
        let desk = Arc::new(Desk::new(SIZE));
        let brought = bring(&desk, &["a", "b", "c"]).await;
        assert_eq!(desk.bring(Ok(event("d")), "/").await.1, End::Full);
        brought[0].abort();
        while !brought[0].is_finished() {
            yield_now().await;
        }
        assert_eq!(next(&desk).await, Some(2), "nobody waits for the first any more");
    }

    #[tokio::test]
    async fn a_key_is_busy_while_its_holder_works_though_its_sender_gave_up() {
        let desk = Arc::new(Desk::new(SIZE));
        let brought = bring(&desk, &["a"]).await;
        assert_eq!(next(&desk).await, Some(1));
        brought[0].abort();
        while !brought[0].is_finished() {
            yield_now().await;
        }
        let _again = bring(&desk, &["a"]).await;
        assert_eq!(next(&desk).await, None);
        assert!(desk.end(Handle(1), End::Taken), "nobody hears it");
        assert_eq!(next(&desk).await, Some(2));
    }

    #[tokio::test]
    async fn a_close_sends_everybody_away_and_does_not_say_that_nothing_was_taken_in() {
        let desk = Arc::new(Desk::new(SIZE));
        let mut brought = bring(&desk, &["a", "b"]).await;
        assert_eq!(next(&desk).await, Some(1));
        desk.close();
        assert_eq!(brought.remove(1).await.unwrap().1, End::Closed, "it was not handed out");
        assert_eq!(brought.remove(0).await.unwrap().1, End::Late, "it was in hand");
        assert_eq!(desk.bring(Ok(event("c")), "/").await.1, End::Closed);
        assert_eq!(desk.next(SECOND).await, None);
    }
}
