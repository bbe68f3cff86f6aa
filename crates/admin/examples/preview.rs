//! The console over invented orders: `cargo run -p postbox-admin --example preview [MODE]`, where
//! MODE is `empty`, `down` (an outbox does not answer) or `many` (searches stop early, counts are
//! estimates).
//!
//! It prints the address and serves until it is interrupted. With `POSTBOX_TOKEN` set it asks for
//! that token.

#[path = "../tests/console/fake.rs"]
mod fake;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use event::{
    Beat, Cause, Code, Durability, Event, Finding, Gauge, Grade, LaneState, LaneView, Level,
    Millis, Moment, Secret, SinkView, Status,
};
use fake::{Relay, Shelf, listed};
use postbox_admin::{Console, Options, serve};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (orders, stock) = (Arc::new(Shelf::default()), Arc::new(Shelf::default()));
    let relay = Arc::new(Relay::default());
    if mode != "empty" {
        history(&orders, &relay);
        orders.trimmed.store(1_284_310, Ordering::Relaxed);
        lanes(&relay);
        tokio::spawn(live(orders.clone(), relay.clone()));
    }
    stock.down.store(mode == "down", Ordering::Relaxed);
    if mode == "many" {
        orders.estimates.store(true, Ordering::Relaxed);
        orders.reach.store(60, Ordering::Relaxed);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "http://{}/", listener.local_addr()?)?;
    let mut outboxes: Vec<(String, Arc<dyn event::Catalog>)> = vec![("orders".into(), orders)];
    if mode == "down" {
        outboxes.push(("stock".into(), stock));
    }
    let console = Console { outboxes, pulse: relay, unready: Arc::new(Vec::new) };
    let token = std::env::var("POSTBOX_TOKEN").ok().map(Secret::new);
    let options = Options { token, hosts: Vec::new() };
    Ok(serve(listener, console, options, CancellationToken::new()).await?)
}

const KINDS: [(&str, &str); 4] = [
    ("order.placed", "OrderPlaced"),
    ("order.paid", "OrderPaid"),
    ("stock.reserved", "StockReserved"),
    ("mail.due", "MailDue"),
];

fn order(number: u64) -> Event {
    let (topic, kind) = KINDS[fastrand::usize(..KINDS.len())];
    let payload = format!(
        r#"{{"order": {number}, "customer": {{"name": "A <b>bold</b> one", "card": "4111 1111"}},
           "total": 12345678901234567890.10, "lines": [{{"sku": "A-1", "n": 2}}, []]}}"#
    );
    Event::new(topic, kind, payload)
        .key(format!("order-{number}"))
        .header("schema_version", "3")
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("authorization", "Bearer canary")
}

fn cause() -> Cause {
    match fastrand::u8(..10) {
        0..5 => Cause::new(Code::SinkRefused, "stock answered 422: sku A-1 is not known here"),
        5..8 => Cause::new(Code::AttemptsSpent, "12 attempts, the last: stock answered 503"),
        8 => Cause::new(Code::Unrouted, "no route matches topic mail.due"),
        _ => Cause::new(Code::CrashLoop, "three relays died while they had it in hand"),
    }
}

fn history(orders: &Shelf, relay: &Relay) {
    let now = Millis::now();
    let mut rows = orders.rows.lock().expect("nobody holds the rows yet");
    for number in 0..400_u64 {
        let back = Duration::from_millis((400 - number) * 9_000);
        let mut event = order(1_284_310 + number);
        event.created = now - back;
        let status = match fastrand::u8(..20) {
            0..2 if number < 390 => Status::Dead,
            2 if number < 390 => Status::Retry,
            3 if number > 380 => Status::Dispatching,
            4..6 if number > 380 => Status::New,
            _ => Status::Sent,
        };
        let mut row = listed(event, status, None);
        row.updated = row.event.created + Duration::from_millis(180);
        if matches!(status, Status::Dead | Status::Retry) {
            let tries = fastrand::u32(1..5);
            row.trail = (1..=tries).map(|attempt| moment(&row.event, attempt)).collect();
            row.updated = row.trail.last().map_or(now, |moment| moment.at);
            row.attempts = tries;
            row.behind = u64::from(fastrand::u8(..4)) * u64::from(status == Status::Retry);
        }
        row.next_attempt = (status == Status::Retry).then(|| now + Duration::from_secs(95));
        row.broker_id = (status == Status::Sent).then(|| format!("7F0000010A2B{number:016X}"));
        rows.push(row);
    }
    let mut twice = rows[390].clone();
    (twice.event.created, twice.status, twice.attempts) = (now, Status::New, 0);
    rows.push(twice);
    let mut beats = relay.beats.lock().expect("nobody holds the beats yet");
    beats.extend((0..900).map(|back| beat(now.0 / 1000 - 900 + back)));
}

fn moment(event: &Event, attempt: u32) -> Moment {
    let at = event.created + Duration::from_secs(u64::from(attempt * attempt) * 4);
    Moment { at, attempt, cause: cause() }
}

fn beat(second: i64) -> Beat {
    let wave = (second as f64 / 37.0).sin() + (second as f64 / 11.0).sin() / 3.0;
    let sent = (420.0 + 160.0 * wave + fastrand::f64() * 40.0) as u64;
    let bump = second % 240 > 200;
    Beat {
        second,
        sent: if bump { sent / 3 } else { sent },
        retried: if bump { 30 + fastrand::u64(..40) } else { fastrand::u64(..6) },
        dead: u64::from(second % 61 == 0),
        pending: 180
            + (90.0 * wave) as u64
            + if bump { (second % 240 - 200) as u64 * 40 } else { 0 },
    }
}

fn lanes(relay: &Relay) {
    let lane = |sink: &str, state, cause| LaneView {
        outbox: "orders".into(),
        sink: sink.into(),
        state,
        cause,
    };
    let down = Cause::new(Code::SinkDown, "connect to 127.0.0.1:8081: connection refused");
    relay.lanes.lock().expect("nobody holds the lanes yet").extend([
        lane("stock", LaneState::Running, None),
        lane("mail", LaneState::Resting, Some(down.clone())),
    ]);
    let level =
        |gauge, value| Level { gauge, topic: "orders".into(), group: "stock".into(), value };
    let levels =
        vec![level(Gauge::Lag, 1_284.0), level(Gauge::Dead, 2.0), level(Gauge::Disk, 0.83)];
    let sink = |name: &str, durability, levels, findings, cause| SinkView {
        sink: name.into(),
        durability,
        levels,
        findings,
        cause,
    };
    let alone = "no event of order_paid gets a second copy: SLAVE_NOT_AVAILABLE; look at the slave";
    let findings = vec![Finding::new(Grade::Bad, "copies", alone)];
    relay.sinks.lock().expect("nobody holds the sinks yet").extend([
        sink("stock", Some(Durability::Replicated), levels, findings, None),
        sink("mail", None, Vec::new(), Vec::new(), Some(down)),
    ]);
}

async fn live(orders: Arc<Shelf>, relay: Arc<Relay>) {
    let mut pace = tokio::time::interval(Duration::from_secs(1));
    let mut number = 1_284_710;
    loop {
        pace.tick().await;
        let beat = beat(Millis::now().0 / 1000);
        relay.beats.lock().expect("no holder panics").push(beat);
        orders.trimmed.fetch_add(beat.sent, Ordering::Relaxed);
        let mut rows = orders.rows.lock().expect("no holder panics");
        for row in rows.iter_mut().filter(|row| row.status == Status::New) {
            row.status = Status::Sent;
            row.attempts = 1;
            row.updated = Millis::now();
        }
        for _ in 0..fastrand::u8(2..9) {
            number += 1;
            rows.push(listed(order(number), Status::New, None));
        }
    }
}
