//! What a broker answers to each call of Kafka's own protocol.

use std::io::{ErrorKind, Result};

use super::letter::Answer;

/// A partition of a topic.
pub(super) type Place = (String, i32);

/// The longest name of a topic.
const TOPIC: usize = 249;
/// What is kept of the name of a folder.
const PATH: usize = 255;

/// What Kafka says to whom it may not tell of the cluster.
const DENIED: i16 = 31;

/// What a broker tells of its disks.
#[derive(Debug, PartialEq)]
pub(super) enum Disks {
    /// The folders in which it keeps its logs.
    Told(Vec<Folder>),
    /// We lack the right to know.
    Denied,
    /// It does not know the question, as none before 3.3 does.
    Old,
}

/// A folder in which a broker keeps its logs.
#[derive(Debug, PartialEq)]
pub(super) struct Folder {
    pub(super) path: String,
    /// How much of its disk cannot be written to any more, from 0 to 1, if that is known.
    pub(super) used: Option<f64>,
    /// Whether the broker has given it up.
    pub(super) lost: bool,
}

/// Reads what a broker says to whom shows who they are.
pub(super) fn let_in(answer: &[u8]) -> Result<Vec<u8>> {
    let mut answer = Answer(answer);
    answer.fine()?;
    let _why_not = answer.text()?;
    Ok(answer.bytes()?.to_vec())
}

pub(super) fn groups(answer: &[u8]) -> Result<Vec<String>> {
    let mut answer = Answer(answer);
    let _throttled = answer.long()?;
    answer.fine()?;
    let mut groups = Vec::new();
    for _ in 0..answer.long()? {
        groups.push(answer.text()?);
        let _protocol = answer.text()?;
    }
    Ok(groups)
}

pub(super) fn committed(answer: &[u8]) -> Result<Vec<(Place, i64)>> {
    let (mut answer, mut told) = (Answer(answer), Vec::new());
    for _ in 0..answer.long()? {
        let topic = topic(&mut answer)?;
        for _ in 0..answer.long()? {
            let (partition, offset) = (answer.long()?, answer.number()?);
            let _note = answer.text()?;
            if answer.short()? == 0 && offset >= 0 {
                told.push(((topic.clone(), partition), offset));
            }
        }
    }
    answer.fine()?;
    Ok(told)
}

pub(super) fn offsets(answer: &[u8]) -> Result<Vec<(Place, i64)>> {
    let (mut answer, mut told) = (Answer(answer), Vec::new());
    for _ in 0..answer.long()? {
        let topic = topic(&mut answer)?;
        for _ in 0..answer.long()? {
            let (partition, error) = (answer.long()?, answer.short()?);
            let (_time, offset) = (answer.number()?, answer.number()?);
            if error == 0 {
                told.push(((topic.clone(), partition), offset));
            }
        }
    }
    Ok(told)
}

/// Reads the name of a topic. It is kept once for each partition, so a longer one is not read.
fn topic(answer: &mut Answer<'_>) -> Result<String> {
    let topic = answer.text()?;
    if topic.len() > TOPIC { Err(ErrorKind::InvalidData.into()) } else { Ok(topic) }
}

/// Tells whether a broker knows a version of a call.
pub(super) fn knows(answer: &[u8], (key, version): (i16, i16)) -> Result<bool> {
    let mut answer = Answer(answer);
    answer.fine()?;
    for _ in 0..answer.long()? {
        let (known, least, most) = (answer.short()?, answer.short()?, answer.short()?);
        if known == key {
            return Ok((least..=most).contains(&version));
        }
    }
    Ok(false)
}

pub(super) fn disks(answer: &[u8]) -> Result<Disks> {
    let mut answer = Answer(answer);
    answer.extras()?;
    let _throttled = answer.long()?;
    if Answer(answer.0).short()? == DENIED {
        return Ok(Disks::Denied);
    }
    answer.fine()?;
    let mut folders = Vec::new();
    for _ in 0..answer.lean_count()? {
        folders.push(folder(&mut answer)?);
    }
    answer.extras()?;
    Ok(Disks::Told(folders))
}

fn folder(answer: &mut Answer<'_>) -> Result<Folder> {
    let lost = answer.short()? != 0;
    let path = answer.lean_text()?;
    let path = String::from_utf8_lossy(&path[..path.len().min(PATH)]).into_owned();
    for _ in 0..answer.lean_count()? {
        let _topic = answer.lean_text()?;
        for _ in 0..answer.lean_count()? {
            let _partition = (answer.long()?, answer.number()?, answer.number()?);
            let _moves = answer.part(1)?;
            answer.extras()?;
        }
        answer.extras()?;
    }
    let (total, usable) = (answer.number()?, answer.number()?);
    answer.extras()?;
    // Where it does not know them, they are below 0.
    let known = !lost && total > 0 && usable >= 0;
    let used = known.then(|| 1.0 - (usable as f64 / total as f64).min(1.0));
    Ok(Folder { path, used, lost })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::kafka::letter::Letter;

    /// What a broker with two folders tells, one of them given up.
    fn told() -> Vec<u8> {
        let mut told = Letter::default();
        told.0.extend([0, 0, 0, 0, 0, 0, 0, 3]);
        told.0.extend(*b"\0\0\x06/logs");
        // A topic of one partition.
        told.0.extend(*b"\x02\x02t\x02");
        told.0.extend([7; 21]);
        told.0.extend([0, 0]);
        told.number(1000);
        told.number(250);
        // Something that is not known yet.
        told.0.extend([1, 0, 2, 9, 9]);
        told.0.extend(*b"\0\x38\x06/gone\x01");
        told.number(-1);
        told.number(-1);
        told.0.extend([0, 0]);
        told.0
    }

    #[test]
    fn each_folder_of_a_broker_is_told_with_how_full_it_is() {
        let folder = |path: &str, used, lost| Folder { path: path.to_owned(), used, lost };
        let all = vec![folder("/logs", Some(0.75), false), folder("/gone", None, true)];
        assert_eq!(disks(&told()).unwrap(), Disks::Told(all));
    }

    #[test]
    fn whoever_may_not_know_is_told_so_and_another_error_is_one() {
        assert_eq!(disks(&[0, 0, 0, 0, 0, 0, 31, 1, 0]).unwrap(), Disks::Denied);
        let other = disks(&[0, 0, 0, 0, 0, 0, 41, 1, 0]).unwrap_err();
        assert!(other.to_string().contains("41"), "{other}");
    }

    #[test]
    fn how_full_a_disk_is_is_known_from_0_to_1_or_not_at_all() {
        let used = |total: i64, usable: i64| {
            let mut one = Letter(b"\0\0\x02/\x01".to_vec());
            one.number(total);
            one.number(usable);
            one.byte(0);
            folder(&mut Answer(&one.0)).unwrap().used
        };
        assert_eq!(used(100, 20), Some(0.8));
        assert_eq!(used(100, 0), Some(1.0));
        assert_eq!(used(100, 100), Some(0.0));
        assert_eq!(used(100, 300), Some(0.0));
        assert_eq!(used(i64::MAX, i64::MAX), Some(0.0));
        for (total, usable) in [(-1, -1), (0, 0), (100, -1), (i64::MIN, i64::MIN)] {
            assert_eq!(used(total, usable), None, "{total} {usable}");
        }
    }

    #[test]
    fn a_broker_knows_a_version_between_its_least_and_its_most() {
        let answer = [0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 9, 0, 35, 0, 1, 0, 4];
        assert!(knows(&answer, (35, 4)).unwrap() && knows(&answer, (35, 1)).unwrap());
        assert!(!knows(&answer, (35, 5)).unwrap() && !knows(&answer, (35, 0)).unwrap());
        assert!(!knows(&answer, (36, 0)).unwrap() && knows(&[0, 35, 0, 0, 0, 0], (35, 4)).is_err());
    }

    /// Reads bytes as every answer that there is; returns how much was kept.
    fn read_all(bytes: &[u8]) -> usize {
        let of = |places: Result<Vec<(Place, i64)>>| {
            let kept = |((topic, _), _): &(Place, i64)| topic.len() + size_of::<(Place, i64)>();
            places.unwrap_or_default().iter().map(kept).sum::<usize>()
        };
        let names = groups(bytes).unwrap_or_default();
        let names: usize = names.iter().map(|it| it.len() + size_of::<String>()).sum();
        let folders = match disks(bytes) {
            Ok(Disks::Told(folders)) => folders,
            _ => Vec::new(),
        };
        for used in folders.iter().filter_map(|folder| folder.used) {
            assert!((0.0..=1.0).contains(&used), "{used}");
        }
        let folders: usize = folders.iter().map(|it| it.path.len() + size_of::<Folder>()).sum();
        let _ = knows(bytes, (35, 4));
        let folders = folders.max(let_in(bytes).unwrap_or_default().len());
        folders.max(names).max(of(committed(bytes))).max(of(offsets(bytes)))
    }

    #[test]
    fn an_answer_that_says_it_holds_more_than_it_does_is_an_error() {
        let whole = told();
        for length in 0..whole.len() {
            assert!(disks(&whole[..length]).is_err(), "{length}");
        }
        let endless = [0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 15];
        assert_eq!(disks(&endless).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let mut long = Letter::default();
        long.long(1);
        long.text(&"t".repeat(TOPIC + 1));
        long.long(0);
        assert_eq!(offsets(&long.0).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange_to_be_read(
            // Small ones lead deeper.
            bytes in vec(prop_oneof![4 => 0..4u8, 1 => any::<u8>()], 0..2000),
        ) {
            prop_assert!(read_all(&bytes) <= 20 * bytes.len());
        }

        #[test]
        fn no_change_of_an_answer_is(changes in vec((any::<Index>(), any::<u8>()), 1..9)) {
            let mut bytes = told();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            prop_assert!(read_all(&bytes) <= 20 * bytes.len());
        }
    }
}
