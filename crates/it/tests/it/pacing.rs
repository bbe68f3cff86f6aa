//! Relays that share the work share what a destination gets at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use it::instance::Instance;
use it::process::Signal;
use it::receiver::{Arrival, Receiver, counting};
use it::site::{Rules, Site};

const PATIENCE: Duration = Duration::from_secs(60);
const COUNT: usize = 2000;
const CONCURRENCY: usize = 8;

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
    let most = Arc::new(AtomicUsize::new(0));
    let habit = counting(Duration::from_millis(20), most.clone());
    let receiver = Receiver::start(habit).await.unwrap();
    site.put(COUNT, COUNT).await.unwrap();
    let sink = |by: &str| {
        let to = format!("url = \"{}\"\nallow_private = true", receiver.url(by));
        format!("kind = \"http\"\n{to}\nconcurrency = {CONCURRENCY}")
    };
    let rules = Rules { outbox, ..Rules::default() };
    let _stays = site.relay_to("a", &sink("a"), "order.*", &rules).unwrap();
    receiver.until_distinct(1, PATIENCE).await.unwrap();
    let mut goes = site.relay_to("b", &sink("b"), "order.*", &rules).unwrap();

    // Whoever has published so much since it came was seen by the other.
    let count = |all: &[Arrival], by: &str| all.iter().filter(|it| it.by == by).count();
    let seen = |all: &[Arrival]| (count(all, "b") >= COUNT / 10).then_some(all.len());
    let before = receiver.until("a share of b's", PATIENCE, seen).await.unwrap();
    most.store(0, Ordering::SeqCst);
    let later = |all: &[Arrival]| (all.len() >= before + COUNT / 4).then_some(());
    receiver.until("more from both", PATIENCE, later).await.unwrap();
    let together = most.load(Ordering::SeqCst);
    let arrivals = receiver.arrivals();
    for by in ["a", "b"] {
        assert!(count(&arrivals[before..], by) > 0, "{by} published nothing beside the other");
    }
    assert!(together <= CONCURRENCY, "{together} at once, of {CONCURRENCY} for all relays");

    goes.signal(Signal::TERM).unwrap();
    assert!(goes.ends(PATIENCE).await.unwrap().success(), "{}", goes.log());
    most.store(0, Ordering::SeqCst);
    let mut left = COUNT;
    while most.load(Ordering::SeqCst) < CONCURRENCY {
        left += 100;
        assert!(left < 20 * COUNT, "the one that is left has its half for ever");
        site.put(100, 100).await.unwrap();
        receiver.until_distinct(left, PATIENCE).await.unwrap();
    }
    let sent = |counts: &event::Counts| counts.sent == left as u64;
    site.until("everything is sent", PATIENCE, sent).await.unwrap();
}
