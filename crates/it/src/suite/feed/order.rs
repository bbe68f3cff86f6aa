//! Order per key, for one consumer and for several of a group.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event::{Event, EventId, Feed, Nack};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::quay::Quay;
use crate::suite::passage::{Bringer, PATIENCE, Passage, ack, id_of, ids, in_order, next};

/// How long the work on an event takes.
const WORK: Duration = Duration::from_millis(10);

/// One consumer gets each key as it was published.
pub async fn one_consumer_gets_each_key_in_order(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (reader, events) = (passage.reader().await, passage.events(6, 20));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    reader.until(ids(&events)).await;
    in_order(&events, &reader.events());
    bringing.done().await;
}

/// A consumer sees where each event stood in line, whatever a producer calls its own headers.
pub async fn the_sequence_comes_along_and_grows_with_each_key(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let (reader, mut events) = (passage.reader().await, passage.events(3, 4));
    // One that was put with a time has none, and no header passes for it.
    events.push(passage.marker());
    let theirs = |event: Event| event.header("Sequence", "0000000000000000009");
    let events: Vec<Event> = events.into_iter().map(theirs).collect();
    let bringing = Bringer::start(passage.sink().await, events.clone());
    reader.until(ids(&events)).await;
    bringing.done().await;
    let (mut first, mut last) = (HashSet::new(), HashMap::new());
    for event in reader.events().into_iter().filter(|event| first.insert(event.id)) {
        let put = events.iter().find(|put| put.id == event.id).expect("nothing else was put");
        assert_eq!((event.sequence, event.headers.get("sequence")), (put.sequence, None));
        if let (Some(sequence), Some(key)) = (event.sequence, event.key) {
            let before = last.insert(key, sequence);
            assert!(before < Some(sequence), "{sequence} came after {before:?}");
        }
    }
    assert_eq!(last.len(), 3);
}

/// Two consumers share the work, and nothing is left out. Where a group keeps order, nothing of a
/// key is handed out before the earlier one is ended, whoever asks.
pub async fn two_consumers_of_a_group_share_and_take_a_key_one_after_another(quay: &dyn Quay) {
    let passage = Passage::new(quay).await;
    let events = passage.events(4, 15);
    let book = Arc::new(Book::new(&events));
    let mut consuming = JoinSet::new();
    for _ in 0..2 {
        consuming.spawn(consume(passage.feed().await, book.clone()));
    }
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let done = async { while consuming.join_next().await.is_some() {} };
    timeout(PATIENCE, done).await.unwrap_or_else(|_| panic!("{} are left", book.left()));
    bringing.done().await;
    let passed = book.notes.lock().expect("no note panics").passed.take();
    assert!(passed.is_none() || !quay.traits().ordered, "{passed:?}");
}

/// Where a group keeps order, an event that shall come again comes before its followers.
pub async fn again_holds_its_key_back_where_a_group_is_ordered(quay: &dyn Quay) {
    if !quay.traits().ordered {
        return;
    }
    let passage = Passage::new(quay).await;
    let (feed, events) = (passage.feed().await, passage.events(1, 4));
    let bringing = Bringer::start(passage.sink().await, events.clone());
    let first = next(&feed).await;
    assert_eq!(id_of(&first), Some(events[0].id));
    let again = Nack::Again(Duration::from_secs(1));
    feed.nack(first.handle, again).await.expect("the broker takes a nack");
    for event in &events {
        let delivery = next(&feed).await;
        assert_eq!(id_of(&delivery), Some(event.id), "a follower passed");
        ack(&feed, &delivery).await;
    }
    bringing.done().await;
}

/// What was handed out and ended, to and by whomever.
struct Book {
    /// The events of each key, in order.
    lines: HashMap<String, Vec<EventId>>,
    total: usize,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    ended: HashSet<EventId>,
    /// What came before an earlier event of its key was ended.
    passed: Option<String>,
}

impl Book {
    fn new(events: &[Event]) -> Book {
        let mut lines: HashMap<String, Vec<EventId>> = HashMap::new();
        for event in events {
            let key = event.key.clone().expect("these have keys");
            lines.entry(key).or_default().push(event.id);
        }
        Book { lines, total: events.len(), notes: Mutex::default() }
    }

    fn left(&self) -> usize {
        self.total - self.notes.lock().expect("no note panics").ended.len()
    }

    fn came(&self, event: &Event) {
        let key = event.key.as_deref().expect("these have keys");
        let mut notes = self.notes.lock().expect("no note panics");
        let before = self.lines[key].iter().take_while(|id| **id != event.id);
        let open = before.filter(|id| !notes.ended.contains(id)).count();
        if open > 0 {
            let passed = format!("{} of {key} came before {open} earlier were ended", event.id);
            notes.passed.get_or_insert(passed);
        }
    }

    fn ended(&self, id: EventId) {
        self.notes.lock().expect("no note panics").ended.insert(id);
    }
}

/// Takes in until nothing is left.
async fn consume(feed: Arc<dyn Feed>, book: Arc<Book>) {
    while book.left() > 0 {
        match feed.next(Duration::from_millis(300)).await {
            Ok(Some(delivery)) => {
                let event = delivery.event.expect("only events were published");
                book.came(&event);
                // The work. The other could get a follower meanwhile, were there one to be had.
                sleep(WORK).await;
                book.ended(event.id);
                let _ = feed.ack(delivery.handle).await;
            }
            Ok(None) => {}
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    feed.close().await;
}
