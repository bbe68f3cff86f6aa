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
    /// How many rows wait, back off or are dead.
    pub(super) left: usize,
    /// How many events the leases say were published.
    pub(super) counted: usize,
    pub(super) changes: Vec<Change>,
    /// Producers that were seen waiting for a relay; `None` where that is not promised.
    pub(super) waits: Option<Vec<String>>,
    /// Whether nothing happened that excuses an event that came twice.
    pub(super) calm: bool,
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
}

impl Facts {
    /// Counts how often each promise was broken.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let find = |name, count, what| Finding { name, count: Some(count), what };
        let waits = self.waits.as_ref().map(Vec::len);
        let twice = self.calm.then(|| self.twice());
        vec![
            find("lost", self.lost(), "committed events that never arrived"),
            find("phantom", self.phantoms(), "arrivals that nobody committed, or not like that"),
            find("out of order", self.disorder(), "first arrivals before an earlier of their key"),
            find("left", self.left, "rows that are not sent at the end"),
            find("missent", self.missent(), "sent rows that are missing, double or of nobody"),
            find("unproven", self.unproven(), "sent rows without the receipt of an arrival"),
            find("miscounted", self.miscounted(), "difference of the relays' own count to commits"),
            find("stale writes", self.stale(), "changes by a relay that was not the owner"),
            Finding { name: "waits", count: waits, what: "INSERTs that waited for a relay" },
            Finding { name: "twice", count: twice, what: "arrivals again without a fault" },
        ]
    }

    fn committed(&self) -> HashSet<&str> {
        self.put.iter().map(|put| put.id.as_str()).collect()
    }

    fn lost(&self) -> usize {
        let came: HashSet<&str> = self.came.iter().map(|came| came.id.as_str()).collect();
        self.put.iter().filter(|put| !came.contains(put.id.as_str())).count()
    }

    /// What arrived counts against both books: the producers' own, and the business rows.
    fn phantoms(&self) -> usize {
        let committed = self.committed();
        let known = |id: &str| committed.contains(id) && self.sold.contains(id);
        self.came.iter().filter(|came| !came.whole || !known(&came.id)).count()
    }

    fn disorder(&self) -> usize {
        let mut place = HashMap::new();
        for (at, put) in self.put.iter().enumerate() {
            place.extend(put.key.as_deref().map(|key| (put.id.as_str(), (key, at))));
        }
        let (mut newest, mut seen) = (HashMap::<&str, usize>::new(), HashSet::new());
        let first = self.came.iter().filter(|came| seen.insert(came.id.as_str()));
        let mut early = 0;
        for (key, at) in first.filter_map(|came| place.get(came.id.as_str())) {
            let newest = newest.entry(*key).or_insert(*at);
            early += usize::from(*at < *newest);
            *newest = (*newest).max(*at);
        }
        early
    }

    fn missent(&self) -> usize {
        let (committed, mut seen) = (self.committed(), HashSet::new());
        let ids = self.sent.iter().map(|sent| sent.id.as_str());
        let wrong = ids.filter(|id| !committed.contains(id) | !seen.insert(*id)).count();
        wrong + committed.difference(&seen).count()
    }

    fn unproven(&self) -> usize {
        let proof = self.proof();
        let proven = |sent: &&Sent| {
            let came = sent.receipt.as_deref().and_then(|receipt| proof.get(receipt));
            came.is_some_and(|came| came.id == sent.id)
        };
        self.sent.iter().filter(|sent| !proven(sent)).count()
    }

    fn proof(&self) -> HashMap<&str, &Came> {
        self.came.iter().map(|came| (came.receipt.as_str(), came)).collect()
    }

    fn miscounted(&self) -> usize {
        self.counted.abs_diff(self.put.len())
    }

    /// A relay is one owner for as long as it lives, and no owner is two relays. So each pair of a
    /// relay that changed a row and the owner that its lease named is the same for both, but for
    /// changes that were not the relay's to make.
    fn stale(&self) -> usize {
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
        let (mut relays, mut owners, mut stale) = (HashSet::new(), HashSet::new(), 0);
        for ((relay, owner), count) in usual {
            if relays.contains(relay) || owners.contains(owner) {
                stale += count;
            } else {
                relays.insert(relay);
                owners.insert(owner);
            }
        }
        stale
    }

    /// Counts arrivals of what had arrived before.
    pub(super) fn twice(&self) -> usize {
        let distinct: HashSet<&str> = self.came.iter().map(|came| came.id.as_str()).collect();
        self.came.len() - distinct.len()
    }
}

#[cfg(test)]
mod tests;
