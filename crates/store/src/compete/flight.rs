//! What one lane has in flight, each row under the fence of its claim.

use std::collections::HashMap;
use std::time::Duration;

use event::{Address, Claim, EventId, Fence, Millis, Moment, Outcome, Settlement};

/// How long after its end a claim that nobody settled is remembered.
const MEMORY: Duration = Duration::from_secs(60 * 60);

/// A row in flight, and what it had behind it when it was claimed.
#[derive(Clone)]
pub(crate) struct Out {
    pub(crate) id: EventId,
    pub(crate) fence: Fence,
    pub(crate) attempts: u32,
    pub(crate) trail: Vec<Moment>,
    until: Millis,
}

/// What one lane has in flight.
#[derive(Default)]
pub(crate) struct Flight {
    /// Counts the servers that it is about.
    era: u64,
    out: HashMap<Address, Out>,
}

impl Flight {
    /// Remembers a claim.
    pub(crate) fn keep(&mut self, claim: &Claim, trail: Vec<Moment>, until: Millis) {
        let (id, fence, attempts) = (claim.event.id, claim.fence, claim.attempt);
        self.out.insert(claim.address, Out { id, fence, attempts, trail, until });
    }

    /// Returns the claim that a settlement ends, if this lane has it.
    pub(crate) fn of(&self, end: &Settlement) -> Option<&Out> {
        let out = self.out.get(&end.address)?;
        (out.fence == end.fence && out.id == end.id).then_some(out)
    }

    /// Lets go of a claim: it was settled, or is another's by now.
    pub(crate) fn end(&mut self, end: &Settlement) {
        if self.of(end).is_some() {
            self.out.remove(&end.address);
        }
    }

    /// Returns what puts everything back, as if it had not been claimed, in the order of the rows.
    pub(crate) fn back(&self) -> Vec<Settlement> {
        let back = |(address, out): (&Address, &Out)| Settlement {
            address: *address,
            id: out.id,
            created: None,
            fence: out.fence,
            outcome: Outcome::Release { after: Duration::ZERO },
        };
        let mut all: Vec<Settlement> = self.out.iter().map(back).collect();
        all.sort_by_key(|end| end.address);
        all
    }

    /// Learns which server answers, by its count: claims of another are let go.
    pub(crate) fn meet(&mut self, era: u64) {
        if std::mem::replace(&mut self.era, era) != era {
            self.out.clear();
        }
    }

    /// Forgets claims that ended long ago and that nobody has settled: their settlement failed.
    pub(crate) fn forget(&mut self, now: Millis) {
        self.out.retain(|_, out| out.until + MEMORY > now);
    }
}

#[cfg(test)]
mod tests {
    use event::{Event, Shelf};

    use super::*;

    const RELEASE: Outcome = Outcome::Release { after: Duration::ZERO };

    fn claim(fence: i64) -> Claim {
        let address = Address { shelf: Shelf::Hot, shard: 0, number: 7 };
        let (event, due) = (Event::new("t", "T", "{}"), Millis(0));
        Claim { event, address, fence: Fence(fence), due, attempt: 1, unexplained: 0 }
    }

    #[test]
    fn only_the_newest_claim_of_a_row_and_of_its_event_can_be_settled() {
        let mut flight = Flight::default();
        let (first, second) = (claim(1), claim(2));
        flight.keep(&first, Vec::new(), Millis(10));
        assert!(flight.of(&first.end(RELEASE)).is_some());
        let other = Claim { event: second.event.clone(), ..first.clone() };
        assert!(flight.of(&other.end(RELEASE)).is_none());
        flight.keep(&second, Vec::new(), Millis(10));
        flight.end(&first.end(RELEASE));
        assert!(flight.of(&first.end(RELEASE)).is_none());
        let back = flight.back().into_iter().map(|end| (end.id, end.fence, end.outcome));
        let end = second.end(RELEASE);
        assert_eq!(back.collect::<Vec<_>>(), [(end.id, end.fence, end.outcome)]);
        flight.end(&second.end(RELEASE));
        assert_eq!(flight.back(), []);
    }

    #[test]
    fn what_could_not_be_settled_is_not_remembered_for_ever() {
        let mut flight = Flight::default();
        flight.keep(&claim(1), Vec::new(), Millis(10));
        flight.forget(Millis(10) + MEMORY - Duration::from_millis(1));
        flight.meet(0);
        assert_eq!(flight.back().len(), 1);
        flight.forget(Millis(10) + MEMORY);
        assert_eq!(flight.back(), []);
        flight.keep(&claim(2), Vec::new(), Millis(10));
        flight.meet(1);
        assert_eq!(flight.back(), [], "another server answers");
    }
}
