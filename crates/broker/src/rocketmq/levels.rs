//! How full the brokers are, how far groups are behind, and how many events they have given up.

use std::collections::{BTreeMap, BTreeSet};

use event::{Gauge, Inspection, Level};
use futures_util::future::join_all;
use serde_json::Value;

use super::remoting::{Desk, mended, numbers};
use crate::rounds::Rounds;

const RUNTIME: i32 = 28;
const TOPIC_STATS: i32 = 202;
const CONSUME_STATS: i32 = 208;
const GROUPS: i32 = 300;

/// Topics that are asked for at once, at the most.
const PAGE: usize = 8;

/// Adds how much of the fullest disk is used.
pub(super) async fn disk(desks: &[Desk], seen: &mut Inspection) {
    let mut fullest: Option<f64> = None;
    for desk in desks {
        let Ok(body) = desk.ask(RUNTIME, &[], b"").await else { continue };
        let table: Value =
            serde_json::from_str(&mended(&String::from_utf8_lossy(&body))).unwrap_or_default();
        let told = table["table"]["commitLogDiskRatio"].as_str();
        let Some(ratio) = told.and_then(|told| told.parse::<f64>().ok()) else { continue };
        if (0.0..=1.0).contains(&ratio) {
            fullest = Some(fullest.map_or(ratio, |other| other.max(ratio)));
        }
    }
    if let Some(value) = fullest {
        seen.levels.push(level(Gauge::Disk, "", "", value));
    }
}

/// Adds how far each group of each topic is behind, and how many events it tries again and has
/// given up. `all` are the topics that there are.
pub(super) async fn groups(
    desks: &[Desk],
    topics: BTreeSet<String>,
    all: &BTreeSet<String>,
    rounds: &Rounds,
    seen: &mut Inspection,
) {
    let mut round = rounds.begin(topics);
    while let Some(page) = round.next(PAGE) {
        let told = join_all(page.iter().map(|topic| of_topic(desks, topic, all))).await;
        for (topic, levels) in page.iter().zip(told) {
            round.note(topic, levels);
        }
    }
    round.end("topics", seen);
    // What a group has given up is in one place, whatever topics it takes.
    let mut known = BTreeSet::new();
    seen.levels.retain(|it| known.insert((it.gauge, it.topic.clone(), it.group.clone())));
}

/// Values by topic and group.
type Sums = BTreeMap<(String, String), i64>;

async fn of_topic(desks: &[Desk], topic: &str, all: &BTreeSet<String>) -> Vec<Level> {
    let (mut lags, mut retries, mut dead) = (Sums::new(), Sums::new(), Sums::new());
    for desk in desks {
        let Ok(body) = desk.ask(GROUPS, &[("topic", topic)], b"").await else { continue };
        let table: Value = serde_json::from_slice(&body).unwrap_or_default();
        let groups = table["groupList"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for group in groups {
            let of = |place: &str| (place.to_owned(), group.to_owned());
            let behind = behind(desk, group, topic).await;
            *lags.entry(of(topic)).or_default() += behind;
            for place in again(group, topic).into_iter().filter(|place| all.contains(place)) {
                *retries.entry(of(&place)).or_default() += self::behind(desk, group, &place).await;
            }
            let grave = format!("%DLQ%{group}");
            let kept = match all.contains(&grave) {
                true => desk.ask(TOPIC_STATS, &[("topic", &grave)], b"").await.unwrap_or_default(),
                false => Vec::new(),
            };
            *dead.entry(of(&grave)).or_default() += between(&kept, "minOffset", "maxOffset");
        }
    }
    let sums = [(Gauge::Lag, lags), (Gauge::Retry, retries), (Gauge::Dead, dead)];
    let each = sums.into_iter().flat_map(|(gauge, sums)| {
        sums.into_iter().map(move |((topic, group), sum)| level(gauge, &topic, &group, sum as f64))
    });
    each.collect()
}

/// Returns the topics in which what a group tries again can wait, by the kind of its consumers.
fn again(group: &str, topic: &str) -> [String; 3] {
    let all = format!("%RETRY%{group}");
    [format!("{all}_{topic}"), format!("{all}+{topic}"), all]
}

async fn behind(desk: &Desk, group: &str, topic: &str) -> i64 {
    let asked = [("consumerGroup", group), ("topic", topic)];
    let told = desk.ask(CONSUME_STATS, &asked, b"").await.unwrap_or_default();
    between(&told, "consumerOffset", "brokerOffset")
}

fn between(body: &[u8], low: &str, high: &str) -> i64 {
    let text = String::from_utf8_lossy(body);
    let pairs = numbers(&text, low).into_iter().zip(numbers(&text, high));
    pairs.map(|(low, high)| (high - low.max(0)).max(0)).sum()
}

fn level(gauge: Gauge, topic: &str, group: &str, value: f64) -> Level {
    Level { gauge, topic: topic.to_owned(), group: group.to_owned(), value }
}
