//! The last minutes, second by second, for the console's chart.

use std::collections::VecDeque;
use std::sync::Mutex;

use event::Beat;

/// How many seconds are remembered.
const MOST: usize = 900;

/// A ring of beats. Seconds in which nothing happened are filled in, so that a chart has no holes.
#[derive(Default)]
pub(crate) struct Beats(Mutex<VecDeque<Beat>>);

impl Beats {
    pub(crate) fn add(&self, second: i64, change: impl FnOnce(&mut Beat)) {
        let mut ring = self.0.lock().expect("no beat panics");
        let last = ring.back().copied();
        let from = last.map_or(second, |last| (last.second + 1).max(second - MOST as i64));
        let pending = last.map_or(0, |last| last.pending);
        for second in from..=second {
            if ring.len() == MOST {
                ring.pop_front();
            }
            ring.push_back(Beat { second, pending, ..Beat::default() });
        }
        if let Some(beat) = ring.back_mut() {
            change(beat);
        }
    }

    pub(crate) fn last(&self, most: usize) -> Vec<Beat> {
        let ring = self.0.lock().expect("no beat panics");
        ring.iter().skip(ring.len().saturating_sub(most)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_seconds_are_filled_in_and_the_backlog_carries_over() {
        let beats = Beats::default();
        beats.add(10, |beat| (beat.sent, beat.pending) = (5, 7));
        beats.add(13, |beat| beat.sent += 1);
        let last = beats.last(10);
        let seen: Vec<_> = last.iter().map(|b| (b.second, b.sent, b.pending)).collect();
        assert_eq!(seen, [(10, 5, 7), (11, 0, 7), (12, 0, 7), (13, 1, 7)]);
    }

    #[test]
    fn a_long_silence_costs_no_more_than_the_ring() {
        let beats = Beats::default();
        beats.add(0, |beat| beat.sent = 1);
        beats.add(i64::from(u32::MAX), |beat| beat.sent = 2);
        assert_eq!(beats.last(usize::MAX).len(), MOST);
    }
}
