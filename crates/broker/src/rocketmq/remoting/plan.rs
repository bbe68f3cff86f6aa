//! Which events go together, and which one after another.
//!
//! A request holds events of one topic and goes to one queue, where they stay as they stand in it.
//! So of one key, only the requests have to wait for each other.

use std::collections::{BTreeMap, HashMap};

use super::parcel::Parcel;

/// Events of one request at the most: more would fail together and gain little.
const MOST: usize = 128;

/// Bytes of one request at the most; a broker takes 4 MiB, with its own additions.
const BYTES: usize = 2 << 20;

/// Parts of which the next goes when the one before was answered.
pub(super) struct Run {
    /// The place of its queue in the route, or any.
    pub(super) queue: Option<usize>,
    pub(super) parts: Vec<Vec<Parcel>>,
}

/// Parts events so that each key has one topic; what has to come behind is returned, too.
pub(super) fn one_topic_per_key(parcels: Vec<Parcel>) -> (Vec<Parcel>, Vec<Parcel>) {
    let mut topics: HashMap<String, String> = HashMap::new();
    parcels.into_iter().partition(|parcel| {
        let Some(key) = &parcel.key else { return true };
        let topic = topics.entry(key.clone()).or_insert_with(|| parcel.topic.clone());
        *topic == parcel.topic
    })
}

/// Makes a run for each queue.
pub(super) fn by_queue(parcels: Vec<Parcel>, queue: impl Fn(&Parcel) -> usize) -> Vec<Run> {
    let mut queues: BTreeMap<usize, Vec<Parcel>> = BTreeMap::new();
    for parcel in parcels {
        queues.entry(queue(&parcel)).or_default().push(parcel);
    }
    let run = |(queue, parcels)| Run { queue: Some(queue), parts: parts(parcels, MOST) };
    queues.into_iter().map(run).collect()
}

/// Makes a run of each part, because nothing has to wait: several together, or each by itself.
pub(super) fn by_part(parcels: Vec<Parcel>, together: bool) -> Vec<Run> {
    let parts = parts(parcels, if together { MOST } else { 1 });
    parts.into_iter().map(|part| Run { queue: None, parts: vec![part] }).collect()
}

fn parts(parcels: Vec<Parcel>, most: usize) -> Vec<Vec<Parcel>> {
    let mut parts: Vec<Vec<Parcel>> = Vec::new();
    let mut bytes = 0;
    for parcel in parcels {
        let size = parcel.size();
        match parts.last_mut() {
            Some(part) if part.len() < most && bytes + size <= BYTES => {
                bytes += size;
                part.push(parcel);
            }
            _ => {
                bytes = size;
                parts.push(vec![parcel]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::super::wire::{resource, v2};
    use super::*;

    fn parcel(place: usize, topic: &str, key: &str, bytes: usize) -> Parcel {
        let body = Bytes::from(vec![b'x'; bytes]);
        let letter = v2::Message { topic: resource(topic), body, ..Default::default() };
        Parcel::new(place, Some(key.to_owned()), letter).unwrap()
    }

    fn places(parcels: &[Parcel]) -> Vec<usize> {
        parcels.iter().map(|parcel| parcel.place).collect()
    }

    #[test]
    fn of_a_key_another_topic_comes_behind() {
        let parcels = [("a", "1"), ("b", "1"), ("b", "2"), ("a", "1"), ("a", "2")];
        let parcels = parcels.iter().enumerate();
        let parcels = parcels.map(|(place, (topic, key))| parcel(place, topic, key, 1)).collect();
        let (now, later) = one_topic_per_key(parcels);
        assert_eq!((places(&now), places(&later)), (vec![0, 2, 3], vec![1, 4]));
    }

    #[test]
    fn parts_hold_neither_too_many_nor_too_much_and_stay_in_order() {
        let mut parcels: Vec<Parcel> = (0..300).map(|n| parcel(n, "t", "k", 10)).collect();
        parcels.extend((300..303).map(|n| parcel(n, "t", "k", 1 << 20)));
        let runs = by_queue(parcels.clone(), |parcel| parcel.place % 2);
        assert_eq!(runs.len(), 2);
        for (at, run) in runs.iter().enumerate() {
            let all: Vec<usize> = run.parts.iter().flat_map(|part| places(part)).collect();
            assert_eq!(all, (0..303).filter(|n| n % 2 == at).collect::<Vec<_>>());
            let size = |part: &Vec<Parcel>| part.iter().map(Parcel::size).sum::<usize>();
            let right = |part: &Vec<Parcel>| part.len() <= MOST && size(part) <= BYTES;
            assert!(run.parts.iter().all(right) && run.queue == Some(at));
        }
        let single = by_part(parcels, false);
        assert!(single.len() == 303 && single.iter().all(|run| run.parts[0].len() == 1));
    }
}
