//! How far groups are behind, and how many events were given up: what a cluster tells of its load.
//!
//! For each group it asks how far it has come, without joining it, and leaves out what it is not
//! told: a part of a sum would pass for the whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::Duration;

use event::{Finding, Gauge, Grade, Inspection, Level};
use futures_util::future::join_all;
use tokio::time::timeout;

use super::desk::{BEGINNING, Desk, END};
use super::shape::Shapes;
use super::told::Place;
use super::way::Way;
use crate::rounds::Rounds;

/// Partitions that are asked for at once, at the most.
const PAGE: usize = 1000;

/// What a feed adds to the name of a topic to name the place of its dead.
pub(super) const DEAD: &str = ".dead";

/// The first offset of each partition, and the next.
type Ends = HashMap<Place, (i64, i64)>;

/// Asks every broker for the levels of topics.
pub(super) async fn levels(
    shapes: &Shapes,
    topics: &BTreeSet<String>,
    way: &Way,
    rounds: &Rounds,
    patience: Duration,
    seen: &mut Inspection,
) {
    let asking = shapes.brokers.iter().map(|(id, address)| async {
        let asked = timeout(patience, ask(*id, address, shapes, topics, way)).await;
        asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    });
    let (mut desks, mut ends, mut keepers) = (Vec::new(), Ends::new(), BTreeMap::new());
    for (asked, address) in join_all(asking).await.into_iter().zip(shapes.brokers.values()) {
        match asked {
            Ok(told) => {
                ends.extend(told.ends);
                keepers.extend(told.groups.into_iter().map(|group| (group, desks.len())));
                desks.push((address, told.desk));
            }
            Err(error) => {
                let detail = format!("{address} does not tell how far its groups are: {error}");
                seen.findings.push(Finding::new(Grade::Warn, "lag", detail));
            }
        }
    }
    seen.findings.extend(keep_whole(&wanted(topics), |topic| shapes.partitions(topic), &mut ends));
    seen.levels.extend(dead(topics, &ends));
    let mut untold: BTreeMap<&str, (usize, io::Error)> = BTreeMap::new();
    let mut round = rounds.begin(keepers.keys().cloned().collect());
    while let Some(page) = round.next(1) {
        for group in page {
            let (address, desk) = &mut desks[keepers[&group]];
            let told = timeout(patience.min(round.time()), desk.committed(&group)).await;
            match told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(told) => round.note(&group, behind(&group, topics, told, &ends)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    round.note(&group, Vec::new());
                }
                // What it told before still counts.
                Err(error) => untold.entry(address).or_insert((0, error)).0 += 1,
            }
        }
    }
    for (address, (count, error)) in untold {
        let detail = format!("{address} does not tell how far {count} of its groups are: {error}");
        seen.findings.push(Finding::new(Grade::Warn, "lag", detail));
    }
    round.end("groups", seen);
}

/// Returns the topics, and the places of their dead.
fn wanted(topics: &BTreeSet<String>) -> BTreeSet<String> {
    let graves = topics.iter().map(|topic| format!("{topic}{DEAD}"));
    graves.chain(topics.iter().cloned()).collect()
}

/// Leaves out every topic with a partition that nobody told of, and says so.
fn keep_whole(
    wanted: &BTreeSet<String>,
    partitions: impl Fn(&str) -> usize,
    ends: &mut Ends,
) -> Option<Finding> {
    let mut told: HashMap<String, usize> = HashMap::new();
    for (topic, _) in ends.keys() {
        *told.entry(topic.clone()).or_default() += 1;
    }
    let is_whole = |topic: &str| told.get(topic).copied().unwrap_or(0) >= partitions(topic);
    ends.retain(|(topic, _), _| is_whole(topic));
    let missing = wanted.iter().filter(|topic| !is_whole(topic)).count();
    (missing > 0).then(|| {
        let detail = format!(
            "{missing} topics have partitions of which no broker tells, so what groups lack of \
             them and what is dead there is left out: look which brokers are away"
        );
        Finding::new(Grade::Warn, "lag", detail)
    })
}

/// What one broker told.
struct Told {
    desk: Desk,
    groups: Vec<String>,
    ends: Ends,
}

async fn ask(
    id: i32,
    address: &str,
    shapes: &Shapes,
    topics: &BTreeSet<String>,
    way: &Way,
) -> io::Result<Told> {
    let mut desk = Desk::open(address, way).await?;
    let groups = desk.groups().await?;
    let places: Vec<Place> = shapes.led_by(id, &wanted(topics));
    let mut ends = Ends::new();
    for page in places.chunks(PAGE) {
        let page: Vec<&Place> = page.iter().collect();
        let mut firsts: HashMap<Place, i64> =
            desk.offsets(&page, BEGINNING).await?.into_iter().collect();
        for (place, next) in desk.offsets(&page, END).await? {
            if let Some(first) = firsts.remove(&place) {
                ends.insert(place, (first, next));
            }
        }
    }
    Ok(Told { desk, groups, ends })
}

/// Counts the events that were given up. A topic without a place for them has none.
fn dead(topics: &BTreeSet<String>, ends: &Ends) -> Vec<Level> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for ((place, _), (first, next)) in ends {
        if let Some(topic) = place.strip_suffix(DEAD).filter(|topic| topics.contains(*topic)) {
            *counts.entry(topic).or_default() += next - first;
        }
    }
    let level = |(topic, count): (&str, i64)| {
        let (gauge, topic, group) = (Gauge::Dead, topic.to_owned(), String::new());
        Level { gauge, topic, group, value: count as f64 }
    };
    counts.into_iter().map(level).collect()
}

/// Returns how far a group is behind in each topic that it has taken anything of.
fn behind(
    group: &str,
    topics: &BTreeSet<String>,
    told: Vec<(Place, i64)>,
    ends: &Ends,
) -> Vec<Level> {
    let told: HashMap<Place, i64> = told.into_iter().collect();
    let taken: BTreeSet<&str> = told.keys().map(|(topic, _)| topic.as_str()).collect();
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for (place, (first, next)) in ends {
        let topic = place.0.as_str();
        if taken.contains(topic) && topics.contains(topic) {
            // Of a partition that it has not come to, it has everything before it.
            let at = told.get(place).copied().unwrap_or(*first);
            *sums.entry(topic).or_default() += next - at.clamp(*first, *next);
        }
    }
    let level = |(topic, sum): (&str, i64)| {
        let (topic, group) = (topic.to_owned(), group.to_owned());
        Level { gauge: Gauge::Lag, topic, group, value: sum as f64 }
    };
    sums.into_iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn place(topic: &str, partition: i32) -> Place {
        (topic.to_owned(), partition)
    }

    fn ends() -> Ends {
        let ends = [("a", 0, 0, 10), ("a", 1, 2, 4), ("b", 0, 0, 9), ("a.dead", 0, 1, 4)];
        ends.map(|(topic, at, first, next)| (place(topic, at), (first, next))).into()
    }

    #[test]
    fn a_group_is_behind_in_topics_that_it_has_taken_of() {
        let topics = ["a", "b"].map(str::to_owned).into();
        let told = vec![(place("a", 0), 7), (place("elsewhere", 0), 1)];
        let levels = behind("g", &topics, told, &ends());
        let [Level { gauge: Gauge::Lag, topic, group, value }] = &levels[..] else {
            panic!("{levels:?}")
        };
        assert_eq!((topic.as_str(), group.as_str(), *value), ("a", "g", 5.0));
        assert!(behind("g", &topics, vec![(place("a", 0), 99)], &ends())[0].value == 2.0);
    }

    #[test]
    fn a_topic_with_a_partition_that_nobody_told_of_is_left_out() {
        let (topics, mut told) = (["a", "b"].map(str::to_owned).into(), ends());
        let partitions = |topic: &str| match topic {
            "a.dead" => 2,
            "a" => 3,
            "b" => 1,
            _ => 0,
        };
        let found = keep_whole(&wanted(&topics), partitions, &mut told).expect("a finding");
        assert!(found.grade == Grade::Warn && found.detail.starts_with("2 topics"), "{found:?}");
        assert_eq!(dead(&topics, &told), []);
        let levels = behind("g", &topics, vec![(place("a", 0), 1), (place("b", 0), 1)], &told);
        assert!(levels.len() == 1 && levels[0].topic == "b", "{levels:?}");
        assert_eq!(keep_whole(&["b".to_owned()].into(), partitions, &mut told), None);
    }

    /// Answers who its groups are, and nothing else.
    async fn tells_groups_only(broker: TcpListener) {
        let (mut stream, _) = broker.accept().await.unwrap();
        let length = stream.read_u32().await.unwrap();
        let mut asked = vec![0; length as usize];
        stream.read_exact(&mut asked).await.unwrap();
        let mut answer = asked[4..8].to_vec();
        answer.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        answer.extend(b"\0\x01g\0\0\0\x01h\0\0");
        stream.write_u32(answer.len() as u32).await.unwrap();
        stream.write_all(&answer).await.unwrap();
        let _ = stream.read_to_end(&mut asked).await;
    }

    #[tokio::test]
    async fn what_a_group_told_before_counts_while_its_broker_is_silent() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut shapes = Shapes::default();
        shapes.brokers.insert(1, broker.local_addr().unwrap().to_string());
        tokio::spawn(tells_groups_only(broker));
        let (rounds, topics) = (Rounds::default(), ["a".to_owned()].into());
        let told = behind("g", &topics, vec![(place("a", 0), 7)], &ends());
        rounds.begin(["g".to_owned()].into()).note("g", told.clone());
        let mut seen = Inspection::of(event::Durability::Durable);
        let patience = Duration::from_millis(200);
        levels(&shapes, &topics, &Way::default(), &rounds, patience, &mut seen).await;
        assert_eq!(seen.levels, told);
        let [found] = &seen.findings[..] else { panic!("{seen:?}") };
        assert!(found.detail.contains("2 of its groups"), "{found:?}");
    }

    #[test]
    fn what_is_in_the_place_of_a_topics_dead_is_counted() {
        let levels = dead(&["a", "b"].map(str::to_owned).into(), &ends());
        let told: Vec<_> = levels.iter().map(|it| (it.topic.as_str(), it.value)).collect();
        assert_eq!(told, [("a", 3.0)]);
        assert_eq!(dead(&["a.dead".to_owned()].into(), &ends()), []);
    }
}
