//! How relays divide the rows of an outbox among themselves.

use std::fmt;

use event::{Cause, Code, StoreError};

/// How relays divide the rows of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Whichever suits the database best: `own`.
    #[default]
    Auto,
    /// Each relay leases shards, and reads their rows in order.
    Own,
    /// Relays compete for rows, and pass over the line of a shard that another has open.
    SkipLocked,
    /// Relays compete for rows; whoever comes second finds that a line's fence has moved.
    Cas,
    /// Relays compete for rows, and write their names into lines beforehand.
    Preempt,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Strategy; 5] =
        [Strategy::Auto, Strategy::Own, Strategy::SkipLocked, Strategy::Cas, Strategy::Preempt];

    /// Returns its name, as a config writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Auto => "auto",
            Strategy::Own => "own",
            Strategy::SkipLocked => "skip_locked",
            Strategy::Cas => "cas",
            Strategy::Preempt => "preempt",
        }
    }

    /// Returns the strategy of a name.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Tells whether relays compete for rows, and lease no shards.
    pub fn competes(self) -> bool {
        !matches!(self, Strategy::Auto | Strategy::Own)
    }

    /// Chooses, where that is left to the database.
    pub(crate) fn chosen(self) -> Strategy {
        if self == Strategy::Auto { Strategy::Own } else { self }
    }

    /// Chooses for a database that does only some, and says why another is refused.
    pub(crate) fn on(self, can: &[Strategy], why: &str) -> Result<Strategy, StoreError> {
        let chosen = self.chosen();
        if can.contains(&chosen) {
            return Ok(chosen);
        }
        let names: Vec<&str> = can.iter().map(|strategy| strategy.name()).collect();
        let detail = format!("strategy {self}: {why}; take {}", names.join(", "));
        Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_a_name_and_what_a_database_cannot_do_is_refused_with_the_reason() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::named(strategy.name()), Some(strategy));
        }
        assert_eq!(Strategy::named("skip"), None);
        let can = [Strategy::Own, Strategy::Cas];
        assert_eq!(Strategy::Auto.on(&can, "").unwrap(), Strategy::Own);
        assert_eq!(Strategy::Cas.on(&can, "").unwrap(), Strategy::Cas);
        let refused = Strategy::SkipLocked.on(&can, "so it is").unwrap_err();
        assert!(refused.to_string().contains("strategy skip_locked: so it is; take own, cas"));
    }
}
