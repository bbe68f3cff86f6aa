//! How far groups are behind, and how many events were given up: what a cluster tells of its load.
//!
//! For each group it asks for committed offsets as that group, without joining it. It asks for a
//! few groups and partitions only, and leaves out what it is not told.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use event::{Gauge, Level};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::groups::GroupInfo;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// More would be no cheap look any more.
const GROUPS: usize = 20;
const PARTITIONS: usize = 200;

/// What a feed adds to the name of a topic to name the place of its dead.
pub(super) const DEAD: &str = ".dead";

/// Asks for levels, for at most twice the timeout.
pub(super) fn levels(
    config: &ClientConfig,
    topics: &[String],
    partitions: &HashMap<String, Vec<i32>>,
    timeout: Duration,
) -> Vec<Level> {
    let until = Instant::now() + 2 * timeout;
    let Some(asking) = as_group(config, None) else { return Vec::new() };
    let places = topics.iter().filter_map(|topic| Some((topic, partitions.get(topic)?)));
    let places: Vec<(&str, i32)> = places
        .flat_map(|(topic, numbers)| numbers.iter().map(move |number| (topic.as_str(), *number)))
        .take(PARTITIONS)
        .collect();
    let left = || until.saturating_duration_since(Instant::now()).min(timeout);
    let mut ends = HashMap::new();
    for (topic, partition) in &places {
        if let Ok(marks) = asking.fetch_watermarks(topic, *partition, left()) {
            ends.insert((*topic, *partition), marks);
        }
    }
    let mut levels = dead(&asking, topics, &left);
    let groups = asking.fetch_group_list(None, left());
    let mut groups: Vec<&GroupInfo> = groups.iter().flat_map(|groups| groups.groups()).collect();
    // Those that take of these topics now come first.
    groups.sort_by_key(|group| !takes(group, topics));
    for group in groups.into_iter().map(GroupInfo::name).take(GROUPS) {
        let Some(asking) = as_group(config, Some(group)) else { continue };
        let mut wanted = TopicPartitionList::new();
        for (topic, partition) in ends.keys() {
            wanted.add_partition(topic, *partition);
        }
        let Ok(told) = asking.committed_offsets(wanted, left()) else { continue };
        for (topic, value) in behind(&told, &ends) {
            let group = group.to_owned();
            levels.push(Level { gauge: Gauge::Lag, topic, group, value });
        }
    }
    levels
}

/// Tells whether a member of a group says that it takes of one of these topics.
fn takes(group: &GroupInfo, topics: &[String]) -> bool {
    let said = group.members().iter().flat_map(|member| [member.metadata(), member.assignment()]);
    said.flatten().any(|said| {
        let named = |topic: &String| said.windows(topic.len()).any(|it| it == topic.as_bytes());
        topics.iter().any(named)
    })
}

fn as_group(config: &ClientConfig, group: Option<&str>) -> Option<BaseConsumer> {
    let mut config = config.clone();
    if let Some(group) = group {
        config.set("group.id", group).set("enable.auto.commit", "false");
    }
    config.create().ok()
}

/// Counts the events that were given up. A topic without a place for them has none.
fn dead(asking: &BaseConsumer, topics: &[String], left: &impl Fn() -> Duration) -> Vec<Level> {
    let mut levels = Vec::new();
    for topic in topics {
        let place = format!("{topic}{DEAD}");
        let Ok(metadata) = asking.fetch_metadata(Some(&place), left()) else { continue };
        let found = metadata.topics().iter().filter(|found| found.error().is_none());
        let numbers = found.flat_map(|found| found.partitions()).map(|partition| partition.id());
        let counted: Vec<i64> = numbers
            .take(PARTITIONS)
            .filter_map(|number| asking.fetch_watermarks(&place, number, left()).ok())
            .map(|(low, high)| high - low)
            .collect();
        if !counted.is_empty() {
            let value = counted.iter().sum::<i64>() as f64;
            let (topic, group) = (topic.clone(), String::new());
            levels.push(Level { gauge: Gauge::Dead, topic, group, value });
        }
    }
    levels
}

/// Returns how far a group is behind in each topic that it has taken anything of.
fn behind(
    told: &TopicPartitionList,
    ends: &HashMap<(&str, i32), (i64, i64)>,
) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<String, (i64, bool)> = BTreeMap::new();
    for place in told.elements() {
        let Some((low, high)) = ends.get(&(place.topic(), place.partition())) else { continue };
        let (sum, takes) = sums.entry(place.topic().to_owned()).or_default();
        match place.offset() {
            Offset::Offset(at) => {
                *sum += high - at.clamp(*low, *high);
                *takes = true;
            }
            _ => *sum += high - low,
        }
    }
    let taken = sums.into_iter().filter(|(_, (_, takes))| *takes);
    taken.map(|(topic, (sum, _))| (topic, sum as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_behind_in_topics_that_it_has_taken_of() {
        let mut told = TopicPartitionList::new();
        for (topic, partition, at) in [("a", 0, Some(7)), ("a", 1, None), ("b", 0, None)] {
            let offset = at.map_or(Offset::Invalid, Offset::Offset);
            told.add_partition_offset(topic, partition, offset).unwrap();
        }
        let ends = HashMap::from([(("a", 0), (0, 10)), (("a", 1), (2, 4)), (("b", 0), (0, 9))]);
        assert_eq!(behind(&told, &ends), [("a".to_owned(), 5.0)]);
    }
}
