//! How full the brokers are, how far groups are behind, and how many events they have given up.
//!
//! A sum of which a broker does not tell its part is left out: a part would be taken for the whole.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use event::{Finding, Gauge, Grade, Inspection, Level};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::remoting::{Desk, Silence, mended, numbers};
use crate::rounds::Rounds;

const RUNTIME: i32 = 28;
const TOPIC_STATS: i32 = 202;
const CONSUME_STATS: i32 = 208;
const GROUPS: i32 = 300;

/// The broker does not have the topic.
const NO_TOPIC: i64 = 17;

/// Topics that are asked for at once, at the most.
const PAGE: usize = 8;

/// Calls that are out at once, at the most.
const CALLS: usize = 32;

/// Adds how much of the fullest disk is used.
pub(super) async fn disk(desks: &[Desk], seen: &mut Inspection) {
    let ratio = |body: Vec<u8>| {
        let text = mended(&String::from_utf8_lossy(&body));
        let table: Value = serde_json::from_str(&text).unwrap_or_default();
        let told = table["table"]["commitLogDiskRatio"].as_str();
        told?.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio))
    };
    let told = join_all(desks.iter().map(|desk| desk.ask(RUNTIME, &[], b""))).await;
    if let Some(value) = told.into_iter().flatten().filter_map(ratio).reduce(f64::max) {
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
    let look = &Look { desks, all, calls: Semaphore::new(CALLS) };
    let mut round = rounds.begin(topics);
    let mut late = Vec::new();
    while let Some(page) = round.next(PAGE) {
        let mut left: BTreeSet<&String> = page.iter().collect();
        let asked = page.iter().map(|topic| async move { (topic, look.topic(topic).await) });
        let mut asked: FuturesUnordered<_> = asked.collect();
        while let Ok(Some((topic, levels))) = timeout(round.time(), asked.next()).await {
            left.remove(topic);
            round.note(topic, levels);
        }
        late.extend(left.into_iter().cloned());
    }
    round.end("topics", seen);
    if !late.is_empty() {
        let detail = format!("their groups took too long to look at: {}", late.join(", "));
        seen.findings.push(Finding::new(Grade::Warn, "topics", detail));
    }
    // What a group has given up is in one place, whatever topics it takes.
    let mut known = BTreeSet::new();
    seen.levels.retain(|it| known.insert((it.gauge, it.topic.clone(), it.group.clone())));
}

/// One look at many groups.
struct Look<'a> {
    desks: &'a [Desk],
    all: &'a BTreeSet<String>,
    calls: Semaphore,
}

/// What is told: gauge, topic and group.
type Of = (Gauge, String, String);

/// What one broker tells of it; `None` if it does not.
type Part = (Of, Option<i64>);

impl Look<'_> {
    async fn topic(&self, topic: &str) -> Vec<Level> {
        let told = join_all(self.desks.iter().map(|desk| self.desk(desk, topic))).await;
        // Whoever does not tell its groups may have any.
        let Some(parts) = told.into_iter().collect::<Option<Vec<_>>>() else { return Vec::new() };
        let mut sums: BTreeMap<Of, Option<i64>> = BTreeMap::new();
        for (of, part) in parts.into_iter().flatten() {
            let sum = sums.entry(of).or_insert(Some(0));
            *sum = sum.zip(part).map(|(sum, part)| sum + part);
        }
        let whole = |((gauge, topic, group), sum): (Of, Option<i64>)| {
            Some(level(gauge, &topic, &group, sum? as f64))
        };
        sums.into_iter().filter_map(whole).collect()
    }

    async fn desk(&self, desk: &Desk, topic: &str) -> Option<Vec<Part>> {
        let body = self.ask(desk, GROUPS, &[("topic", topic)]).await?;
        let table: Value = serde_json::from_slice(&body).unwrap_or_default();
        let groups = table["groupList"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let told = join_all(groups.map(|group| self.group(desk, group, topic))).await;
        Some(told.into_iter().flatten().collect())
    }

    async fn group(&self, desk: &Desk, group: &str, topic: &str) -> Vec<Part> {
        let of = |gauge, place: &str| (gauge, place.to_owned(), group.to_owned());
        let mut told = vec![(of(Gauge::Lag, topic), self.behind(desk, group, topic).await)];
        for place in again(group, topic).into_iter().filter(|place| self.all.contains(place)) {
            told.push((of(Gauge::Retry, &place), self.behind(desk, group, &place).await));
        }
        let grave = format!("%DLQ%{group}");
        let kept = match self.all.contains(&grave) {
            true => self.ask(desk, TOPIC_STATS, &[("topic", &grave)]).await,
            // Without a list of topics nobody knows whether it is there.
            false => (!self.all.is_empty()).then(Vec::new),
        };
        let kept = kept.map(|kept| between(&kept, "minOffset", "maxOffset"));
        told.push((of(Gauge::Dead, &grave), kept));
        told
    }

    async fn behind(&self, desk: &Desk, group: &str, topic: &str) -> Option<i64> {
        let asked = [("consumerGroup", group), ("topic", topic)];
        let told = self.ask(desk, CONSUME_STATS, &asked).await?;
        Some(between(&told, "consumerOffset", "brokerOffset"))
    }

    /// Returns what a broker tells; nothing of a topic that it does not have.
    async fn ask(&self, desk: &Desk, code: i32, fields: &[(&str, &str)]) -> Option<Vec<u8>> {
        let _turn = self.calls.acquire().await.ok()?;
        match desk.ask(code, fields, b"").await {
            Ok(body) => Some(body),
            Err(Silence::Refused { code: NO_TOPIC, .. }) => Some(Vec::new()),
            Err(_) => None,
        }
    }
}

/// Returns the topics in which what a group tries again can wait, by the kind of its consumers.
fn again(group: &str, topic: &str) -> [String; 3] {
    let all = format!("%RETRY%{group}");
    [format!("{all}_{topic}"), format!("{all}+{topic}"), all]
}

fn between(body: &[u8], low: &str, high: &str) -> i64 {
    let text = String::from_utf8_lossy(body);
    let pairs = numbers(&text, low).into_iter().zip(numbers(&text, high));
    pairs.map(|(low, high)| (high - low.max(0)).max(0)).sum()
}

fn level(gauge: Gauge, topic: &str, group: &str, value: f64) -> Level {
    Level { gauge, topic: topic.to_owned(), group: group.to_owned(), value }
}
