//! A destination that answers probes and turns every event away is not back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use it::instance::Instance;
use it::receiver::{Habit, Receiver};
use it::site::{Rules, Site};

const PATIENCE: Duration = Duration::from_secs(60);
const BACK: &str = "its destination is back";

/// Lets nobody in until it is opened.
fn closed(open: &Arc<AtomicBool>) -> Habit {
    let open = open.clone();
    Arc::new(move |_| {
        let open = open.load(Ordering::SeqCst);
        let status = if open { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED };
        Box::pin(async move { status })
    })
}

#[tokio::test]
async fn a_destination_that_only_answers_probes_is_not_back_for_relays_that_compete() {
    let outbox = "batch = 1\nturns = 2\nstrategy = \"skip_locked\"\norder = \"pass\"";
    is_not_back("postgres", outbox).await;
}

#[tokio::test]
async fn a_destination_that_only_answers_probes_is_not_back_without_skip_locked() {
    is_not_back("mysql", "turns = 1\nstrategy = \"cas\"\norder = \"pass\"").await;
}

#[tokio::test]
async fn a_destination_that_only_answers_probes_is_not_back_for_who_owns_its_shards() {
    is_not_back("postgres", "batch = 1\nturns = 2").await;
}

async fn is_not_back(server: &str, outbox: &'static str) {
    let instance = Instance::start(server).unwrap();
    let site = Site::on(&instance.url, PATIENCE).await.unwrap();
    let open = Arc::new(AtomicBool::new(false));
    let receiver = Receiver::start(closed(&open)).await.unwrap();
    site.put(2, 2).await.unwrap();
    let rules = Rules { outbox, ..Rules::default() };
    let mut relay = site.relay("a", &receiver.url("a"), &rules).unwrap();
    let often = |all: &[_]| (all.len() >= 40).then_some(());
    receiver.until("turned away often", PATIENCE, often).await.unwrap();
    let log = relay.log();
    assert!(!log.contains(BACK), "{log}");

    open.store(true, Ordering::SeqCst);
    relay.says(BACK, PATIENCE).await.unwrap();
    site.until("both are sent", PATIENCE, |counts| counts.sent == 2).await.unwrap();
}
