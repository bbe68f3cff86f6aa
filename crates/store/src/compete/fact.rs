//! The strategy is a fact of the outbox: relays that own shards and relays that compete for rows
//! would hand out the same rows.
//!
//! The first claim writes it down. Another strategy is taken up only while no other relay is there,
//! nobody holds a lease and nothing is in flight; those that compete go together.

use std::time::Duration;

use event::{Cause, Code, Leased, Millis, StoreError};

use crate::Strategy;

/// What an outbox says about its strategy, with every lease open.
pub(crate) struct Fact {
    /// The strategy that was written down.
    pub(crate) written: Option<String>,
    /// The clock that rules.
    pub(crate) now: Millis,
    /// Until when the shards are leased.
    pub(crate) leases: Vec<Millis>,
    /// Until when claims of later rows last.
    pub(crate) claims: Vec<Millis>,
    /// Until when other relays say that they are there.
    pub(crate) relays: Vec<Millis>,
}

/// What a relay does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopt {
    /// It goes on.
    Go,
    /// It writes its own strategy down, and goes on.
    Write,
}

/// Tells whether a relay of one strategy may work beside those of what was written down.
pub(crate) fn agrees(mine: Strategy, written: Option<&str>) -> bool {
    let theirs = written.and_then(Strategy::named);
    theirs.is_some_and(|theirs| theirs.competes() == mine.competes())
}

/// Says whether a relay may claim, and what it has to write down first. Refuses while others are
/// at work in another way.
pub(crate) fn adopt(
    mine: Strategy,
    table: &str,
    fact: &Fact,
    lease: Duration,
) -> Result<Adopt, StoreError> {
    if agrees(mine, fact.written.as_deref()) {
        return Ok(Adopt::Go);
    }
    let runs = |until: &&Millis| Leased::Shard.runs(**until, fact.now, lease);
    let last = fact.leases.iter().chain(&fact.claims).chain(&fact.relays).filter(runs).max();
    let Some(last) = last else { return Ok(Adopt::Write) };
    let theirs = fact.written.as_deref().unwrap_or("own");
    let seconds = last.since(fact.now).as_millis().div_ceil(1000);
    let detail = format!(
        "{table:?} is claimed with strategy {theirs}, and this relay has {mine}. Give every relay \
         of an outbox the same strategy. To change it, stop them all; what one leaves behind that \
         was killed ends in {seconds} s"
    );
    Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
}

/// Refuses a claim under a strategy that the outbox had when this relay began, and has no more.
pub(crate) fn changed(
    mine: Strategy,
    table: &str,
    written: Option<&str>,
) -> Result<(), StoreError> {
    if agrees(mine, written) {
        return Ok(());
    }
    let theirs = written.unwrap_or("none");
    let detail = format!(
        "the strategy of {table:?} was changed to {theirs} while this relay with {mine} ran. Give \
         every relay of an outbox the same strategy"
    );
    Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn fact(written: Option<&str>, leases: &[i64], claims: &[i64]) -> Fact {
        let millis = |all: &[i64]| all.iter().map(|at| Millis(*at)).collect();
        let written = written.map(str::to_owned);
        let (leases, claims, relays) = (millis(leases), millis(claims), Vec::new());
        Fact { written, now: Millis(1000), leases, claims, relays }
    }

    fn asked(mine: Strategy, fact: &Fact) -> Result<Adopt, StoreError> {
        adopt(mine, "outbox", fact, LEASE)
    }

    #[test]
    fn relays_that_own_and_relays_that_compete_never_work_side_by_side() {
        let own = fact(Some("own"), &[2000], &[]);
        assert_eq!(asked(Strategy::Own, &own).unwrap(), Adopt::Go);
        let refused = asked(Strategy::SkipLocked, &own).unwrap_err().to_string();
        assert!(refused.contains("with strategy own, and this relay has skip_locked"), "{refused}");
        assert!(refused.contains("in 1 s"), "{refused}");
        let competing = fact(Some("cas"), &[0], &[5500]);
        assert_eq!(asked(Strategy::SkipLocked, &competing).unwrap(), Adopt::Go);
        asked(Strategy::Own, &competing).unwrap_err();
    }

    #[test]
    fn a_strategy_is_taken_up_when_nothing_is_in_flight() {
        assert_eq!(asked(Strategy::Cas, &fact(None, &[0, 0], &[])).unwrap(), Adopt::Write);
        asked(Strategy::Cas, &fact(None, &[0, 1001], &[])).unwrap_err();
        let idle = Fact { relays: vec![Millis(9000)], ..fact(Some("cas"), &[0], &[]) };
        asked(Strategy::Own, &idle).unwrap_err();
        asked(Strategy::SkipLocked, &idle).unwrap();
        let left = fact(Some("own"), &[1000, 0], &[900]);
        assert_eq!(asked(Strategy::Cas, &left).unwrap(), Adopt::Write);
        let ahead = fact(Some("cas"), &[], &[100_000_000]);
        assert_eq!(asked(Strategy::Own, &ahead).unwrap(), Adopt::Write, "a clock was ahead");
    }

    #[test]
    fn a_relay_that_runs_on_is_told_when_the_strategy_was_changed() {
        changed(Strategy::Cas, "outbox", Some("skip_locked")).unwrap();
        let refused = changed(Strategy::Cas, "outbox", Some("own")).unwrap_err();
        assert!(matches!(refused, StoreError::Broken(_)), "{refused}");
    }
}
