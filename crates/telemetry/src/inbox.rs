//! An inbox that counts what passes through it and changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use event::{Begun, Cause, EventId, Fence, Inbox, InboxEnd, StoreError};
use metrics::{counter, histogram};

use crate::flight::Flight;
use crate::names;

/// Work under way: the group, the event and the fence name it.
type Work = (String, EventId, Fence);

pub(crate) struct WatchedInbox {
    name: String,
    inbox: Arc<dyn Inbox>,
    begun: Flight<Work, Instant>,
}

impl WatchedInbox {
    pub(crate) fn new(name: &str, inbox: Arc<dyn Inbox>) -> WatchedInbox {
        WatchedInbox { name: name.to_owned(), inbox, begun: Flight::new() }
    }

    fn labels(&self, group: &str) -> [(&'static str, String); 2] {
        [("inbox", self.name.clone()), ("group", group.to_owned())]
    }

    fn count(&self, name: &'static str, group: &str) {
        counter!(name, &self.labels(group)).increment(1);
    }

    fn failed(&self, group: &str, cause: &Cause) {
        let [inbox, group] = self.labels(group);
        let labels = [inbox, group, ("code", cause.code.to_string())];
        counter!(names::FAILED, &labels).increment(1);
    }

    fn ended(&self, work: &Work, changed: bool, end: &InboxEnd) {
        let group = &work.0;
        let began = self.begun.take(work);
        match (changed, end) {
            (false, _) => self.count(names::INBOX_STALE, group),
            (true, InboxEnd::Processed) => self.count(names::TAKEN_IN, group),
            (true, InboxEnd::Failed(cause)) => self.failed(group, cause),
        }
        if let (true, Some(began)) = (changed, began) {
            histogram!(names::WORK, &self.labels(group)).record(began.elapsed());
        }
    }
}

#[async_trait]
impl Inbox for WatchedInbox {
    async fn begin(&self, group: &str, id: EventId, lease: Duration) -> Result<Begun, StoreError> {
        let begun = self.inbox.begin(group, id, lease).await;
        match &begun {
            Ok(Begun::Go(fence)) => {
                self.begun.put((group.to_owned(), id, *fence), Instant::now(), lease);
            }
            Ok(Begun::Busy { .. }) => self.count(names::BUSY, group),
            Ok(Begun::Done) => self.count(names::DUPLICATES, group),
            Err(error) => self.failed(group, error.cause()),
        }
        begun
    }

    async fn finish(
        &self,
        group: &str,
        id: EventId,
        fence: Fence,
        end: InboxEnd,
    ) -> Result<bool, StoreError> {
        let finished = self.inbox.finish(group, id, fence, end.clone()).await;
        match &finished {
            Ok(changed) => self.ended(&(group.to_owned(), id, fence), *changed, &end),
            Err(error) => self.failed(group, error.cause()),
        }
        finished
    }
}
