//! Relays that share the work share what a destination gets at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use it::instance::Instance;
use it::process::Signal;
use it::receiver::{Arrival, Habit, Receiver};
use it::site::{Rules, Site};

const PATIENCE: Duration = Duration::from_secs(120);
const COUNT: usize = 2000;
const CONCURRENCY: usize = 8;
/// What each of two relays may have of it.
const PART: usize = CONCURRENCY / 2;
/// Who has so many one after another within its part has noticed that there is another.
const IN_A_ROW: usize = 50;

/// What is inside the destination.
#[derive(Default)]
struct Inside {
    /// How many now, by the relay.
    by: BTreeMap<String, usize>,
    /// How many came one after another within the part of their relay.
    within: BTreeMap<String, usize>,
    /// The most at once.
    most: usize,
}

impl Inside {
    fn comes(&mut self, by: &str) {
        let now = self.by.entry(by.to_owned()).or_default();
        *now += 1;
        let is_within = *now <= PART;
        let within = self.within.entry(by.to_owned()).or_default();
        *within = if is_within { *within + 1 } else { 0 };
        self.most = self.most.max(self.by.values().sum());
    }

    fn goes(&mut self, by: &str) {
        *self.by.entry(by.to_owned()).or_default() -= 1;
    }

    fn shares(&self) -> bool {
        ["a", "b"].iter().all(|by| self.within.get(*by).is_some_and(|row| *row >= IN_A_ROW))
    }
}

/// Accepts everything after a while, and counts what is inside.
fn counting(inside: &Arc<Mutex<Inside>>) -> Habit {
    let inside = inside.clone();
    Arc::new(move |arrival| {
        let inside = inside.clone();
        Box::pin(async move {
            inside.lock().unwrap().comes(&arrival.by);
            tokio::time::sleep(Duration::from_millis(20)).await;
            inside.lock().unwrap().goes(&arrival.by);
            StatusCode::NO_CONTENT
        })
    })
}

/// Makes a test of each way in which relays share the work.
macro_rules! ways {
    ($(fn $test:ident = $server:literal, $rules:literal,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                two_relays_have_no_more_at_once_than_one_and_the_one_that_is_left_has_all_of_it(
                    $server, $rules,
                )
                .await;
            }
        )+
    };
}

ways! {
    fn relays_that_own_shards_share_a_destination_on_postgres = "postgres", "batch = 20",
    fn relays_that_own_shards_share_a_destination_on_mysql = "mysql", "batch = 20",
    fn relays_that_compete_share_a_destination_on_postgres =
        "postgres", "batch = 20\nstrategy = \"skip_locked\"\norder = \"pass\"",
}

async fn two_relays_have_no_more_at_once_than_one_and_the_one_that_is_left_has_all_of_it(
    server: &str,
    outbox: &'static str,
) {
    let instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let inside = Arc::<Mutex<Inside>>::default();
    let receiver = Receiver::start(counting(&inside)).await.unwrap();
    site.put(COUNT, COUNT).await.unwrap();
    let sink = |by: &str| {
        let to = format!("url = \"{}\"\nallow_private = true", receiver.url(by));
        format!("kind = \"http\"\n{to}\nconcurrency = {CONCURRENCY}")
    };
    let rules = Rules { outbox, ..Rules::default() };
    let _stays = site.relay_to("a", &sink("a"), "order.*", &rules).unwrap();
    receiver.until_distinct(1, PATIENCE).await.unwrap();
    let mut goes = site.relay_to("b", &sink("b"), "order.*", &rules).unwrap();

    let count = |all: &[Arrival], by: &str| all.iter().filter(|it| it.by == by).count();
    let shared = |all: &[Arrival]| inside.lock().unwrap().shares().then_some(all.len());
    let before = receiver.until("shared", PATIENCE, shared).await.unwrap();
    inside.lock().unwrap().most = 0;
    let later = |all: &[Arrival]| (all.len() >= before + COUNT / 4).then_some(());
    receiver.until("more from both", PATIENCE, later).await.unwrap();
    let together = inside.lock().unwrap().most;
    let arrivals = receiver.arrivals();
    for by in ["a", "b"] {
        assert!(count(&arrivals[before..], by) > 0, "{by} published nothing beside the other");
    }
    assert!(together <= CONCURRENCY, "{together} at once, of {CONCURRENCY} for all relays");

    goes.signal(Signal::TERM).unwrap();
    assert!(goes.ends(PATIENCE).await.unwrap().success(), "{}", goes.log());
    inside.lock().unwrap().most = 0;
    let mut left = COUNT;
    while inside.lock().unwrap().most < CONCURRENCY {
        left += 100;
        assert!(left < 20 * COUNT, "the one that is left has its half for ever");
        site.put(100, 100).await.unwrap();
        receiver.until_distinct(left, PATIENCE).await.unwrap();
    }
    let sent = |counts: &event::Counts| counts.sent == left as u64;
    site.until("everything is sent", PATIENCE, sent).await.unwrap();
}
