//! How full the brokers are, how far groups are behind, and how many events they have given up.

use std::collections::BTreeMap;

use event::{Gauge, Inspection, Level};
use serde_json::Value;

use super::remoting::{Desk, mended, numbers};

const RUNTIME: i32 = 28;
const TOPIC_STATS: i32 = 202;
const CONSUME_STATS: i32 = 208;
const GROUPS: i32 = 300;

/// Groups of a topic that are looked at, at the most.
const MOST: usize = 16;

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

/// Adds how far each group of a topic is behind, and how many it has given up.
pub(super) async fn groups(desks: &[Desk], topic: &str, seen: &mut Inspection) {
    let mut lags: BTreeMap<String, i64> = BTreeMap::new();
    let mut dead: BTreeMap<String, i64> = BTreeMap::new();
    for desk in desks {
        let Ok(body) = desk.ask(GROUPS, &[("topic", topic)], b"").await else { continue };
        let table: Value = serde_json::from_slice(&body).unwrap_or_default();
        let groups = table["groupList"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for group in groups.take(MOST) {
            let asked = [("consumerGroup", group), ("topic", topic)];
            if let Ok(body) = desk.ask(CONSUME_STATS, &asked, b"").await {
                let behind = between(&body, "consumerOffset", "brokerOffset");
                *lags.entry(group.to_owned()).or_default() += behind;
            }
            let grave = format!("%DLQ%{group}");
            if let Ok(body) = desk.ask(TOPIC_STATS, &[("topic", &grave)], b"").await {
                let kept = between(&body, "minOffset", "maxOffset");
                *dead.entry(group.to_owned()).or_default() += kept;
            }
        }
    }
    for (gauge, values) in [(Gauge::Lag, lags), (Gauge::Dead, dead)] {
        for (group, value) in values {
            seen.levels.push(level(gauge, topic, &group, value as f64));
        }
    }
}

fn between(body: &[u8], low: &str, high: &str) -> i64 {
    let text = String::from_utf8_lossy(body);
    let pairs = numbers(&text, low).into_iter().zip(numbers(&text, high));
    pairs.map(|(low, high)| (high - low.max(0)).max(0)).sum()
}

fn level(gauge: Gauge, topic: &str, group: &str, value: f64) -> Level {
    Level { gauge, topic: topic.to_owned(), group: group.to_owned(), value }
}
