//! What came of a run, as a table.

use std::fmt;
use std::time::Duration;

use super::{Finding, Toll};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which database it was.
    pub title: String,
    /// Each promise, and how often it was broken.
    pub findings: Vec<Finding>,
    /// How many events were committed.
    pub committed: usize,
    /// How many were rolled back.
    pub undone: usize,
    /// The newest warnings and errors of relays.
    pub warned: Vec<String>,
    /// How many first attempts the destination refused.
    pub refused: usize,
    /// How many arrivals were of events that had arrived before.
    pub twice: usize,
    /// What befell the relays.
    pub toll: Toll,
    /// How long each INSERT took before there was a relay, the shortest first.
    pub alone: Vec<Duration>,
    /// How long each INSERT took beside relays, the shortest first.
    pub beside: Vec<Duration>,
    /// How long all of it took.
    pub took: Duration,
}

impl Outcome {
    /// Tells whether every promise was kept.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.count.is_none_or(|count| count == 0))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Toll { killed, stopped, cut_off, replaced, stale } = self.toll;
        writeln!(f, "{} in {:.1} s", self.title, self.took.as_secs_f64())?;
        writeln!(f, "  {:>9}  events committed, {} rolled back", self.committed, self.undone)?;
        writeln!(f, "  {killed:>9}  relays killed, {stopped} stopped beyond their lease")?;
        writeln!(f, "  {cut_off:>9}  relays cut off from the database beyond their lease")?;
        writeln!(f, "  {replaced:>9}  relays ended as they should, and replaced")?;
        writeln!(f, "  {:>9}  first attempts refused by the destination", self.refused)?;
        writeln!(f, "  {:>9}  arrivals of what had arrived before", self.twice)?;
        writeln!(f, "  {stale:>9}  settlements that came too late, at the least")?;
        for (took, when) in [(&self.alone, "without relays"), (&self.beside, "beside relays")] {
            let at = |share| at(took, share).as_secs_f64() * 1e3;
            let (half, most, all) = (at(0.5), at(0.99), at(1.0));
            let told = format!("p50 {half:.2}, p99 {most:.2}, longest {all:.2}");
            writeln!(f, "  {:>9}  INSERTs {when}, ms: {told}", took.len())?;
        }
        for Finding { name, count, what, facts } in &self.findings {
            let (mark, count) = match count {
                Some(0) => ("ok", "0".to_owned()),
                Some(count) => ("BROKEN", count.to_string()),
                None => ("-", "-".to_owned()),
            };
            writeln!(f, "  {name:<14} {count:>7}  {mark:<7} {what}")?;
            for fact in facts.iter().filter(|_| mark == "BROKEN") {
                writeln!(f, "{:27}{fact}", "")?;
            }
        }
        if !self.is_good() {
            self.warned.iter().try_for_each(|line| writeln!(f, "  a relay said: {line}"))?;
        }
        Ok(())
    }
}

fn at(sorted: &[Duration], share: f64) -> Duration {
    let place = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(place).copied().unwrap_or_default()
}
