//! What is known after a run, from the database, the destination and the producers, and how often
//! each promise was broken. No relay is asked.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::home::Change;
use super::producer::Put;

/// One arrival that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) id: String,
    /// Which relay brought it.
    pub(super) by: String,
    pub(super) receipt: String,
    /// Whether its key and payload are those that were put.
    pub(super) whole: bool,
}

/// One row of the history.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) receipt: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// What was committed; the events of a key in the order of their commits.
    pub(super) put: Vec<Put>,
    /// The business rows that are there.
    pub(super) sold: HashSet<String>,
    /// What was accepted, in the order in which it came.
    pub(super) came: Vec<Came>,
    pub(super) sent: Vec<Sent>,
    /// The rows that wait, back off or are dead.
    pub(super) left: Vec<String>,
    /// How many events the leases say were published.
    pub(super) counted: usize,
    pub(super) changes: Vec<Change>,
    /// Producers that were seen waiting for a relay; `None` where that is not promised.
    pub(super) waits: Option<Vec<String>>,
    /// Whether nothing happened that excuses an event that came twice.
    pub(super) calm: bool,
    /// Whether order per key is promised.
    pub(super) ordered: bool,
}

/// One promise, and how often it was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// How often; `None` where it is not promised.
    pub count: Option<usize>,
    /// What was counted.
    pub what: &'static str,
    /// What is known of each time, of the first few.
    pub facts: Vec<String>,
}

/// Of how many times it is told what is known.
const TOLD: usize = 5;

const MISCOUNTED: &str = "difference of the relays' own count to commits";

impl Facts {
    /// Counts how often each promise was broken.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let find = |name, facts: Option<Vec<String>>, what| {
            let count = facts.as_ref().map(Vec::len);
            let facts = facts.into_iter().flatten().take(TOLD).collect();
            Finding { name, count, what, facts }
        };
        let kept = |name, facts, what| find(name, Some(facts), what);
        let again = self.calm.then(|| self.again());
        let early = self.ordered.then(|| self.disorder());
        let (miscounted, counted) = self.miscounted();
        vec![
            kept("lost", self.lost(), "committed events that never arrived"),
            kept("phantom", self.phantoms(), "arrivals that nobody committed, or not like that"),
            find("out of order", early, "first arrivals before an earlier of their key"),
            kept("left", self.left.clone(), "rows that are not sent at the end"),
            kept("missent", self.missent(), "sent rows that are missing, double or of nobody"),
            kept("unproven", self.unproven(), "sent rows without the receipt of an arrival"),
            Finding { count: Some(miscounted), ..kept("miscounted", counted, MISCOUNTED) },
            kept("stale writes", self.stale(), "changes by a relay that was not the owner"),
            find("waits", self.waits.clone(), "INSERTs that waited for a relay"),
            find("twice", again, "arrivals again without a fault"),
        ]
    }

    fn committed(&self) -> HashSet<&str> {
        self.put.iter().map(|put| put.id.as_str()).collect()
    }

    fn lost(&self) -> Vec<String> {
        let came: HashSet<&str> = self.came.iter().map(|came| came.id.as_str()).collect();
        let lost = self.put.iter().filter(|put| !came.contains(put.id.as_str()));
        lost.map(|put| format!("{put:?}")).collect()
    }

    /// What arrived counts against both books: the producers' own, and the business rows.
    fn phantoms(&self) -> Vec<String> {
        let committed = self.committed();
        let known = |id: &str| committed.contains(id) && self.sold.contains(id);
        let strange = self.came.iter().filter(|came| !came.whole || !known(&came.id));
        strange.map(|came| format!("{came:?}")).collect()
    }

    fn disorder(&self) -> Vec<String> {
        let mut place = HashMap::new();
        for (at, put) in self.put.iter().enumerate() {
            place.extend(put.key.as_deref().map(|key| (put.id.as_str(), (key, at))));
        }
        let (mut newest, mut seen) = (HashMap::<&str, (usize, &Came)>::new(), HashSet::new());
        let first = self.came.iter().filter(|came| seen.insert(came.id.as_str()));
        let mut early = Vec::new();
        for came in first {
            let Some((key, at)) = place.get(came.id.as_str()) else { continue };
            let (before, other) = newest.entry(key).or_insert((*at, came));
            if *at < *before {
                early.push(format!("of key {key}, {came:?} came after {other:?}"));
            } else {
                (*before, *other) = (*at, came);
            }
        }
        early
    }

    fn missent(&self) -> Vec<String> {
        let (committed, mut seen) = (self.committed(), HashSet::new());
        let mut wrong = Vec::new();
        for sent in &self.sent {
            if !committed.contains(sent.id.as_str()) | !seen.insert(sent.id.as_str()) {
                wrong.push(format!("of nobody, or double: {sent:?}"));
            }
        }
        wrong.extend(committed.difference(&seen).map(|id| format!("missing: {id}")));
        wrong
    }

    fn unproven(&self) -> Vec<String> {
        let proof = self.proof();
        let proven = |sent: &&Sent| {
            let came = sent.receipt.as_deref().and_then(|receipt| proof.get(receipt));
            came.is_some_and(|came| came.id == sent.id)
        };
        self.sent.iter().filter(|sent| !proven(sent)).map(|sent| format!("{sent:?}")).collect()
    }

    fn proof(&self) -> HashMap<&str, &Came> {
        self.came.iter().map(|came| (came.receipt.as_str(), came)).collect()
    }

    fn miscounted(&self) -> (usize, Vec<String>) {
        let (counted, put) = (self.counted, self.put.len());
        let told = format!("{counted} by the relays' own count, and {put} were committed");
        (counted.abs_diff(put), vec![told])
    }

    /// A relay is one owner for as long as it lives, and no owner is two relays; where relays
    /// compete, the owner of a row is the relay that claimed it last. So each pair of a
    /// relay that changed a row and the owner that its lease named is the same for both, but for
    /// changes that were not the relay's to make.
    fn stale(&self) -> Vec<String> {
        let mut pairs = BTreeMap::<(&str, &str), usize>::new();
        for change in &self.changes {
            if let Some(relay) = &change.relay {
                *pairs.entry((relay, &change.owner)).or_default() += 1;
            }
        }
        // The receipt of a sent row tells whose settlement took the row out of its table last.
        let proof = self.proof();
        let last: HashMap<&str, &str> = self
            .changes
            .iter()
            .filter_map(|change| Some((change.id.as_deref()?, change.owner.as_str())))
            .collect();
        for sent in &self.sent {
            let came = sent.receipt.as_deref().and_then(|receipt| proof.get(receipt));
            if let (Some(came), Some(owner)) = (came, last.get(sent.id.as_str())) {
                *pairs.entry((&came.by, owner)).or_default() += 1;
            }
        }
        let mut usual: Vec<_> = pairs.into_iter().collect();
        usual.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (mut relays, mut owners, mut stale) = (HashSet::new(), HashSet::new(), Vec::new());
        for ((relay, owner), count) in usual {
            if relays.contains(relay) || owners.contains(owner) {
                let told = format!("by relay {relay} while {owner} was the owner");
                stale.extend(std::iter::repeat_n(told, count));
            } else {
                relays.insert(relay);
                owners.insert(owner);
            }
        }
        stale
    }

    /// Counts arrivals of what had arrived before.
    pub(super) fn twice(&self) -> usize {
        self.again().len()
    }

    fn again(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let again = self.came.iter().filter(|came| !seen.insert(came.id.as_str()));
        again.map(|came| format!("{came:?}")).collect()
    }
}

#[cfg(test)]
mod tests;
