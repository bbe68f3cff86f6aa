//! Leases that are shut, because another session has them open: nobody waits for one. Those that
//! can be had are had, in parts where the server refuses all at once; the others are left alone for
//! a while, and told of when that lasts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use event::{Cause, Code, StoreError};

/// How long leases are tried in parts, where some of them are shut.
const SOON: Duration = Duration::from_millis(500);

/// How long a lease that was shut is left alone: at first, and at the most.
const REST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// Leases that are tried in parts.
pub(super) struct Parts {
    left: Vec<Vec<u16>>,
    open: BTreeSet<u16>,
    shut: BTreeSet<u16>,
    /// When the first part was tried, and whether some were shut since.
    began: Instant,
    refused: bool,
}

impl Parts {
    /// Tries these, all at once if that can be.
    pub(super) fn of(shards: Vec<u16>) -> Parts {
        let left = if shards.is_empty() { Vec::new() } else { vec![shards] };
        let (open, shut) = (BTreeSet::new(), BTreeSet::new());
        Parts { left, open, shut, began: Instant::now(), refused: false }
    }

    /// Returns what is to be tried next, if anything is.
    pub(super) fn part(&mut self) -> Option<Vec<u16>> {
        if self.refused && self.began.elapsed() >= SOON { None } else { self.left.pop() }
    }

    /// Learns which leases of a part could be opened, unless the server refused all of it.
    pub(super) fn tried(&mut self, mut part: Vec<u16>, open: Option<&BTreeSet<u16>>) {
        match open {
            Some(open) => {
                let (open, shut): (Vec<u16>, Vec<u16>) =
                    part.into_iter().partition(|shard| open.contains(shard));
                self.refused |= !shut.is_empty();
                self.open.extend(open);
                self.shut.extend(shut);
            }
            None => {
                self.refused = true;
                // Whoever comes at the same time begins elsewhere.
                fastrand::shuffle(&mut part);
                let other = part.split_off(part.len() / 2);
                match part.is_empty() {
                    true => self.shut.extend(other),
                    false => self.left.extend([part, other]),
                }
            }
        }
    }
}

/// What a relay knows of leases that were shut, by shard.
#[derive(Default)]
pub(super) struct Shut(BTreeMap<u16, Refused>);

/// Since when a lease is shut, when it was tried last, and how often.
struct Refused {
    since: Instant,
    last: Instant,
    times: u32,
}

impl Refused {
    fn rest(&self) -> Duration {
        REST[1].min(REST[0] * (1 << (self.times - 1).min(8)))
    }
}

impl Shut {
    /// Learns how it went to try leases. Returns those that are shut, and are left alone for a
    /// while.
    pub(super) fn learn(&mut self, parts: Parts, lease: Duration) -> BTreeSet<u16> {
        let Parts { left, open, mut shut, .. } = parts;
        shut.extend(left.into_iter().flatten());
        // What was shut once and then not tried for so long was open meanwhile, for all we know.
        self.0.retain(|shard, one| !open.contains(shard) && one.last.elapsed() <= lease);
        let now = Instant::now();
        for shard in &shut {
            let one = self.0.entry(*shard).or_insert(Refused { since: now, last: now, times: 0 });
            (one.last, one.times) = (now, one.times + 1);
        }
        shut
    }

    /// Learns that a lease is not shut: another relay has taken it.
    pub(super) fn forget(&mut self, shard: u16) {
        self.0.remove(&shard);
    }

    /// Returns for how long a lease is to be left alone, if so.
    pub(super) fn rests(&self, shard: u16) -> Option<Duration> {
        let one = self.0.get(&shard)?;
        let rest = one.rest().saturating_sub(one.last.elapsed());
        (!rest.is_zero()).then_some(rest)
    }

    /// Says of these leases that they are shut, each time that was so for as long as a lease lasts.
    pub(super) fn say(&mut self, shut: &BTreeSet<u16>, lease: Duration) -> Result<(), StoreError> {
        let since = shut.iter().filter_map(|shard| self.0.get(shard)).map(|one| one.since).min();
        let Some(open_for) = since.map(|since| since.elapsed()).filter(|it| *it > lease) else {
            return Ok(());
        };
        self.0.values_mut().for_each(|one| one.since = Instant::now());
        let detail = format!(
            "another session has had leases of shards open for {} s, and their events wait: end \
             the transaction that reads or changes the lease table",
            open_for.as_secs()
        );
        Err(StoreError::Down(Cause::new(Code::StoreBusy, detail)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    /// Tries leases on a server that refuses every part in which one of these is.
    fn try_all(shards: std::ops::Range<u16>, shut: &[u16]) -> (Parts, usize) {
        let (mut parts, mut tries) = (Parts::of(shards.collect()), 0);
        while let Some(part) = parts.part() {
            tries += 1;
            let open: BTreeSet<u16> = part.iter().copied().collect();
            let refuses = shut.iter().any(|shard| open.contains(shard));
            parts.tried(part, Some(&open).filter(|_| !refuses));
        }
        (parts, tries)
    }

    #[test]
    fn whatever_is_not_shut_is_had_and_in_few_parts() {
        let (parts, tries) = try_all(0..16, &[]);
        assert_eq!((parts.open.len(), tries), (16, 1));
        let (parts, tries) = try_all(0..16, &[7]);
        assert_eq!((parts.open.len(), tries), (15, 9));
        assert_eq!(Shut::default().learn(parts, LEASE), [7].into());
        let (parts, _) = try_all(0..16, &[0, 15]);
        assert_eq!(Shut::default().learn(parts, LEASE), [0, 15].into());
        assert_eq!(try_all(0..0, &[]).1, 0);
    }

    #[test]
    fn a_server_that_leaves_out_what_is_shut_is_asked_once() {
        let mut parts = Parts::of((0..4).collect());
        let part = parts.part().unwrap();
        parts.tried(part, Some(&[0, 2, 3].into()));
        assert_eq!(parts.part(), None);
        assert_eq!(Shut::default().learn(parts, LEASE), [1].into());
    }

    #[test]
    fn parts_are_tried_for_a_while_and_what_is_left_counts_as_shut() {
        let mut parts = Parts::of((0..4).collect());
        parts.began = Instant::now().checked_sub(SOON).unwrap();
        let part = parts.part().expect("nothing was refused yet");
        parts.tried(part, None);
        assert_eq!(parts.part(), None);
        assert_eq!(Shut::default().learn(parts, LEASE), (0..4).collect());
    }

    #[test]
    fn only_what_was_shut_is_left_alone_and_ever_longer() {
        let mut shut = Shut::default();
        for times in 0..6 {
            assert_eq!(shut.learn(try_all(0..2, &[1]).0, LEASE), [1].into());
            assert_eq!(shut.rests(0), None);
            let rest = REST[1].min(REST[0] * (1 << times));
            assert!(shut.rests(1).unwrap() <= rest);
            let one = shut.0.get_mut(&1).unwrap();
            assert_eq!(one.rest(), rest);
            one.last = one.last.checked_sub(rest).unwrap();
            assert_eq!(shut.rests(1), None);
        }
        shut.learn(try_all(0..2, &[]).0, LEASE);
        shut.learn(try_all(0..2, &[1]).0, LEASE);
        assert_eq!(shut.0[&1].rest(), REST[0], "it was open in between");
        shut.forget(1);
        assert_eq!(shut.rests(1), None);
    }

    #[test]
    fn what_is_shut_for_as_long_as_a_lease_is_told_each_time() {
        let (mut shut, of) = (Shut::default(), BTreeSet::from([1]));
        let mut tried = |lasted: Duration| {
            shut.learn(try_all(1..2, &[1]).0, LEASE);
            shut.0.get_mut(&1).unwrap().since = Instant::now().checked_sub(lasted).unwrap();
            shut.say(&of, LEASE)
        };
        tried(LEASE / 2).unwrap();
        let told = tried(2 * LEASE).unwrap_err();
        assert_eq!(told.cause().code, Code::StoreBusy);
        assert!(told.to_string().contains("leases of shards open for 60 s"), "{told}");
        assert!(shut.say(&of, LEASE).is_ok(), "it was told");
        shut.0.get_mut(&1).unwrap().since = Instant::now().checked_sub(2 * LEASE).unwrap();
        assert!(shut.say(&[2].into(), LEASE).is_ok(), "that is another one");
        shut.0.get_mut(&1).unwrap().last = Instant::now().checked_sub(2 * LEASE).unwrap();
        shut.learn(try_all(1..2, &[1]).0, LEASE);
        assert!(shut.say(&of, LEASE).is_ok(), "nobody knows whether it was open in between");
    }
}
