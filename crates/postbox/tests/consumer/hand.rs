//! A feed by hand: it hands out what the test gives, and remembers how each was ended.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use postbox::{Cause, Delivery, Event, Feed, Handle, Nack, Refusal};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Hand {
    waiting: Mutex<VecDeque<Delivery>>,
    news: Notify,
    pub(crate) ends: Mutex<Vec<(u64, End)>>,
    pub(crate) extended: Mutex<Vec<u64>>,
    pub(crate) closed: Mutex<bool>,
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

    fn end(&self, handle: Handle, end: End) {
        self.ends.lock().unwrap().push((handle.0, end));
    }
}

#[async_trait]
impl Feed for Hand {
    async fn next(&self, at_most: Duration) -> Result<Option<Delivery>, Refusal> {
        let waiting = async {
            loop {
                let news = self.news.notified();
                if let Some(delivery) = self.waiting.lock().unwrap().pop_front() {
                    return delivery;
                }
                news.await;
            }
        };
        Ok(tokio::time::timeout(at_most, waiting).await.ok())
    }

    async fn ack(&self, handle: Handle) -> Result<(), Refusal> {
        self.end(handle, End::Ack);
        Ok(())
    }

    async fn nack(&self, handle: Handle, nack: Nack) -> Result<(), Refusal> {
        self.end(
            handle,
            match nack {
                Nack::Again(after) => End::Again(after),
                Nack::Dead(cause) => End::Dead(cause),
            },
        );
        Ok(())
    }

    async fn extend(&self, handle: Handle, _by: Duration) -> Result<(), Refusal> {
        self.extended.lock().unwrap().push(handle.0);
        Ok(())
    }

    async fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }
}
