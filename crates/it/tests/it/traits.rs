//! The page of brokers says what their traits say.

use broker::traits::Traits;
use broker::{http, kafka, nats, rabbitmq, redis, rocketmq, stdout};

/// Every kind, in the order in which the page shows them.
const ALL: [Traits; 8] = [
    rocketmq::TRAITS,
    rocketmq::REMOTING_TRAITS,
    kafka::TRAITS,
    rabbitmq::TRAITS,
    nats::TRAITS,
    redis::TRAITS,
    http::TRAITS,
    stdout::TRAITS,
];

fn yes(is: bool) -> String {
    (if is { "yes" } else { "no" }).to_owned()
}

fn size(bytes: usize) -> String {
    match bytes {
        usize::MAX => "any".to_owned(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes if bytes.is_multiple_of(1000) => format!("{} kB", bytes / 1000),
        bytes => format!("{bytes} bytes"),
    }
}

fn levels(traits: &Traits) -> String {
    let names: Vec<&str> = traits.levels.iter().map(|gauge| gauge.as_str()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// What a row says, and where a kind's cell comes from.
type Row = (&'static str, fn(&Traits) -> String);

const ROWS: [Row; 9] = [
    ("the most that a receipt is worth", |it| it.durability.to_string()),
    ("keeps what it took until every group has it", |it| yes(it.keeps)),
    ("largest payload with its usual settings", |it| size(it.largest)),
    ("drops an event that it already has", |it| yes(it.dedupes)),
    ("refuses a topic that is not there", |it| yes(it.knows_topics)),
    ("keeps the order of a key for a group of several consumers", |it| yes(it.ordered)),
    ("counts how often it handed an event out", |it| yes(it.counts)),
    ("takes an event back from a silent consumer", |it| yes(it.leases)),
    ("tells of its load", levels),
];

fn table() -> String {
    let kinds = ALL.iter().map(|it| format!(" `{}` |", it.kind)).collect::<String>();
    let mut table = format!("| |{kinds}\n|---|{}\n", "---|".repeat(ALL.len()));
    for (what, cell) in ROWS {
        let cells = ALL.iter().map(|it| format!(" {} |", cell(it))).collect::<String>();
        table += &format!("| {what} |{cells}\n");
    }
    table
}

#[test]
fn the_page_of_brokers_holds_their_traits() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/brokers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = table();
    assert!(page.contains(&table), "docs/reference/brokers.md must hold\n\n{table}");
}
