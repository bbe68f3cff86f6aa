//! Which days of history go at once: a ring of slots, one for each day.
//!
//! A slot is dropped whole, and only by what stands in it: never by the name of its day alone, for
//! a clock may have been wrong when its rows were dated.

use std::collections::BTreeMap;
use std::time::Duration;

use event::Millis;

/// How many days the ring has. A row's slot is its day modulo this.
const SLOTS: i64 = 16;
const DAY: Duration = Duration::from_secs(86_400);
/// How long history may be kept that goes by the day. Below, a day more would be too much more;
/// above, too few days are left to find a moment at which nobody reads what is to go.
const BY_DAY: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(2 * 86_400)..=Duration::from_secs(12 * 86_400);

/// What was seen of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How many rows, of at most as many as were asked for.
    pub(crate) rows: i64,
    /// When the newest of them was sent.
    pub(crate) newest: Millis,
}

/// The days of the ring as of a moment.
pub(super) struct Ring {
    /// What was sent before this is old.
    before: Millis,
    /// The slots where old rows may be, and whether all of a slot's day is past.
    slots: BTreeMap<i64, bool>,
}

/// What is to be done about old days.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The slots in which everything is old.
    pub(super) drop: Vec<i64>,
    /// Whether rows that are dated ahead stand among old ones, so that those go one by one.
    pub(super) ahead: bool,
}

impl Ring {
    /// Looks at the ring, unless history that is kept for so long does not go by the day. The days
    /// that are kept, and tomorrow, are not in it: somebody may write there.
    pub(super) fn new(now: Millis, keep: Duration) -> Option<Ring> {
        if !BY_DAY.contains(&keep) {
            return None;
        }
        let before = now - keep;
        let (edge, today) = (day(before), day(now));
        let days = (today + 2 - SLOTS)..=edge;
        let slots = days.map(|day| (day.rem_euclid(SLOTS), day < edge)).collect();
        Some(Ring { before, slots })
    }

    /// Returns the slots where old rows may be.
    pub(super) fn slots(&self) -> Vec<i64> {
        self.slots.keys().copied().collect()
    }

    /// Tells whether everything in a slot is old, by a look at so many rows at the most. Of a day
    /// that is not all past, each row must have been seen.
    pub(super) fn goes(&self, slot: i64, seen: Seen, most: i64) -> bool {
        let past = self.slots.get(&slot).copied();
        let all = seen.rows < most || past == Some(true);
        past.is_some() && seen.rows > 0 && seen.newest < self.before && all
    }

    /// Says what is to be done, by such a look at each.
    pub(super) fn plan(&self, seen: &BTreeMap<i64, Seen>, most: i64) -> Plan {
        let mut plan = Plan::default();
        for (slot, seen) in seen {
            if self.goes(*slot, *seen, most) {
                plan.drop.push(*slot);
            } else if self.slots.get(slot) == Some(&true) && seen.rows > 0 {
                plan.ahead = true;
            }
        }
        plan
    }
}

fn day(at: Millis) -> i64 {
    at.0.div_euclid(i64::try_from(DAY.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Millis = Millis(20_000 * 86_400_000 + 43_200_000);

    fn ring(keep: u32) -> Ring {
        Ring::new(NOON, keep * DAY).expect("history goes by the day")
    }

    fn seen(rows: i64, ago: u32) -> Seen {
        Seen { rows, newest: NOON - ago * DAY }
    }

    #[test]
    fn history_goes_by_the_day_when_the_ring_is_neither_too_coarse_nor_too_short() {
        for (keep, by_day) in [
            (Duration::ZERO, false),
            (2 * DAY - Duration::from_millis(1), false),
            (2 * DAY, true),
            (12 * DAY, true),
            (12 * DAY + Duration::from_millis(1), false),
            (Duration::MAX, false),
        ] {
            assert_eq!(Ring::new(NOON, keep).is_some(), by_day, "{keep:?}");
        }
    }

    #[test]
    fn the_days_that_are_kept_and_tomorrow_are_never_touched() {
        for keep in 2..=12 {
            let slots = ring(keep).slots();
            for ahead in -i64::from(keep) + 1..=1 {
                let slot = (20_000 + ahead).rem_euclid(SLOTS);
                assert!(!slots.contains(&slot), "{keep} days, {ahead} from today");
            }
            assert_eq!(slots.len(), 15 - keep as usize, "all others are looked at");
        }
        let old = seen(1, 100);
        assert!(!ring(7).goes(20_000 % SLOTS, old, 10), "today is another's");
    }

    #[test]
    fn a_day_goes_when_its_newest_row_is_old() {
        let (ring, past) = (ring(7), 20_000 - 8);
        let slot = i64::rem_euclid(past, SLOTS);
        assert!(ring.goes(slot, seen(10, 8), 10));
        assert!(!ring.goes(slot, seen(0, 8), 10), "there is nothing");
        assert!(!ring.goes(slot, seen(10, 7), 10), "it is not older than it is kept");
        let ahead = Seen { rows: 3, newest: NOON + 8 * DAY };
        assert!(!ring.goes(slot, ahead, 10));
        let plan = ring.plan(&[(slot, ahead)].into(), 10);
        assert_eq!(plan, Plan { drop: Vec::new(), ahead: true });
    }

    #[test]
    fn a_day_that_is_not_all_past_goes_only_when_each_row_was_seen() {
        let (ring, slot) = (ring(7), i64::rem_euclid(20_000 - 7, SLOTS));
        let old = |rows| Seen { rows, newest: NOON - 7 * DAY - Duration::from_millis(1) };
        assert!(ring.goes(slot, old(9), 10));
        assert!(!ring.goes(slot, old(10), 10));
        assert_eq!(ring.plan(&[(slot, old(10))].into(), 10), Plan::default(), "its time comes");
        assert_eq!(ring.plan(&[(slot, old(9))].into(), 10).drop, [slot]);
    }
}
