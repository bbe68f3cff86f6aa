//! Where the events of a topic go: its queues on all masters, in an order that stays.
//!
//! A key has the queue that a proxy of RocketMQ gives it, so nothing changes its place when a
//! proxy is put in or taken away.

use std::collections::BTreeMap;

use serde_json::Value;

use super::mended;

const WRITE: i64 = 2;

/// One queue on one master.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Queue {
    pub(super) broker: String,
    pub(super) number: i64,
    /// `HOST:PORT` of the master.
    pub(super) address: String,
}

/// The queues that can be written, sorted by broker and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) queues: Vec<Queue>,
    /// Whether there are queues that may not be written.
    pub(super) closed: bool,
}

impl Route {
    /// Reads what a name server tells of a topic.
    pub(super) fn read(body: &[u8]) -> Route {
        let text = mended(&String::from_utf8_lossy(body));
        let table: Value = serde_json::from_str(&text).unwrap_or_default();
        let rows = |name: &str| table[name].as_array().into_iter().flatten().collect::<Vec<_>>();
        let master = |row: &&Value| {
            let address = row["brokerAddrs"]["0"].as_str()?.to_owned();
            Some((row["brokerName"].as_str()?.to_owned(), address))
        };
        let masters: BTreeMap<String, String> =
            rows("brokerDatas").iter().filter_map(master).collect();
        let (mut queues, mut closed) = (Vec::new(), false);
        for row in rows("queueDatas") {
            let count = row["writeQueueNums"].as_i64().unwrap_or(0);
            if row["perm"].as_i64().unwrap_or(0) & WRITE == 0 || count == 0 {
                closed = true;
                continue;
            }
            let broker = row["brokerName"].as_str().unwrap_or_default();
            let Some(address) = masters.get(broker) else { continue };
            let queue = |number| {
                let (broker, address) = (broker.to_owned(), address.clone());
                Queue { broker, number, address }
            };
            queues.extend((0..count).map(queue));
        }
        queues.sort();
        Route { queues, closed }
    }

    /// Returns the place of the queue that a group of events has. There is at least one.
    pub(super) fn of_group(&self, group: &str) -> usize {
        bucket(hash(group), self.queues.len())
    }
}

/// Hashes as Java does: over the 16-bit units of a text.
fn hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

/// Picks one of so many buckets as Guava's `consistentHash` does: one bucket more moves only as
/// many as it needs.
fn bucket(hash: i32, buckets: usize) -> usize {
    let buckets = i32::try_from(buckets).unwrap_or(i32::MAX);
    let mut state = i64::from(hash);
    let mut candidate = 0_i32;
    loop {
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let high = (state.cast_unsigned() >> 33) as i32;
        let next = f64::from(candidate + 1) / (f64::from(high + 1) / f64::from(1_u32 << 31));
        // Beyond the range it is the end of the range, as in Java.
        let next = next as i32;
        if !(0..buckets).contains(&next) {
            return usize::try_from(candidate).unwrap_or(0);
        }
        candidate = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = r#"{"brokerDatas":[
        {"brokerAddrs":{0:"127.0.0.1:2",1:"127.0.0.1:3"},"brokerName":"b"},
        {"brokerAddrs":{0:"127.0.0.1:1"},"brokerName":"a"},
        {"brokerAddrs":{1:"127.0.0.1:4"},"brokerName":"slave"}],
        "queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,"writeQueueNums":2},
        {"brokerName":"slave","perm":6,"readQueueNums":2,"writeQueueNums":2},
        {"brokerName":"a","perm":6,"readQueueNums":4,"writeQueueNums":1}]}"#;

    #[test]
    fn queues_are_those_of_all_masters_in_an_order_that_stays() {
        let route = Route::read(TOLD.as_bytes());
        let seen: Vec<(&str, i64, &str)> = route
            .queues
            .iter()
            .map(|queue| (&*queue.broker, queue.number, &*queue.address))
            .collect();
        let (a, b) = ("127.0.0.1:1", "127.0.0.1:2");
        assert_eq!(seen, [("a", 0, a), ("b", 0, b), ("b", 1, b)]);
        assert!(!route.closed);
        let closed = Route::read(TOLD.replace("\"perm\":6", "\"perm\":4").as_bytes());
        assert!(closed.queues.is_empty() && closed.closed);
        assert!(Route::read(b"nonsense").queues.is_empty());
    }

    #[test]
    fn a_key_has_the_queue_that_a_proxy_gives_it() {
        // Made with `Hashing.consistentHash(key.hashCode(), queues)` in Java, as the proxy does.
        for (key, queues) in [
            ("", [0, 0, 0, 0]),
            ("a", [0, 0, 0, 29]),
            ("key-1", [0, 2, 5, 57]),
            ("ключ 7", [0, 0, 11, 48]),
            ("😀", [0, 1, 4, 31]),
            ("019a9d2e-0000-7000-8000-000000000001", [0, 3, 3, 49]),
            ("k499", [0, 3, 4, 81]),
        ] {
            assert_eq!([1, 4, 16, 100].map(|count| bucket(hash(key), count)), queues, "{key}");
        }
    }
}
