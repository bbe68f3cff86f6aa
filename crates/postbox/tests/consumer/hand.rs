//! A feed by hand: it hands out what the test gives, and remembers how each was ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postbox::{Cause, Code, Delivery, Event, Feed, Handle, Nack, Refusal};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Hand {
    waiting: Mutex<VecDeque<Delivery>>,
    news: Notify,
    pub(crate) ends: Mutex<Vec<(u64, End)>>,
    pub(crate) extended: Mutex<Vec<u64>>,
    pub(crate) closed: Mutex<bool>,
    /// Hands out again what is to come again, at once, and counts.
    pub(crate) counts: AtomicBool,
    /// So many times nobody hears how a delivery ended.
    pub(crate) deaf: AtomicU32,
    /// Why nothing is extended.
    pub(crate) lost: Mutex<Option<Refusal>>,
    /// How long an extension takes, and how many were begun.
    pub(crate) slow: Mutex<Duration>,
    pub(crate) extending: AtomicU32,
    out: Mutex<HashMap<u64, Delivery>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ack,
    Again(Duration),
    Dead(Cause),
}

impl Hand {
    pub(crate) fn give(&self, handle: u64, attempt: u32, event: Result<Event, Cause>) {
        let (origin, handle) = (format!("hand {handle}"), Handle(handle));
        self.waiting.lock().unwrap().push_back(Delivery { event, origin, attempt, handle });
        self.news.notify_one();
    }

    pub(crate) fn ended(&self, handle: u64) -> Vec<End> {
        let ends = self.ends.lock().unwrap();
        ends.iter().filter(|(of, _)| *of == handle).map(|(_, end)| end.clone()).collect()
    }

    fn end(&self, handle: Handle, end: End) -> Result<(), Refusal> {
        let less = |deaf: u32| deaf.checked_sub(1);
        if self.deaf.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Err(Refusal::Down(Cause::new(Code::SinkDown, "nobody hears")));
        }
        let held = self.out.lock().unwrap().remove(&handle.0);
        if let (Some(held), End::Again(_)) = (held, &end)
            && self.counts.load(Ordering::SeqCst)
        {
            self.give(handle.0, held.attempt + 1, held.event);
        }
        self.ends.lock().unwrap().push((handle.0, end));
        Ok(())
    }
}

#[async_trait]
impl Feed for Hand {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        let waiting = async {
            loop {
                let news = self.news.notified();
                if let Some(delivery) = self.waiting.lock().unwrap().pop_front() {
                    self.out.lock().unwrap().insert(delivery.handle.0, delivery.clone());
                    return delivery;
                }
                news.await;
            }
        };
        Ok(tokio::time::timeout(at_most, waiting).await.ok())
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        self.end(handle, End::Ack)
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        self.end(
            handle,
            match nack {
                Nack::Again(after) => End::Again(after),
                Nack::Dead(cause) => End::Dead(cause),
            },
        )
    }

    async fn extend(&self, handle: Handle, _by: Duration) -> Result<(), Refusal> {
        self.extending.fetch_add(1, Ordering::SeqCst);
        let slow = *self.slow.lock().unwrap();
        tokio::time::sleep(slow).await;
        if let Some(refusal) = self.lost.lock().unwrap().clone() {
            return Err(refusal);
        }
        self.extended.lock().unwrap().push(handle.0);
        Ok(())
    }

    async fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }
}
