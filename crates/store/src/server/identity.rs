//! Which server it is that answers.

/// How many seconds two readings of one start may be apart, where it is reckoned from a clock.
const APART: u64 = 2;

/// What tells a server from every other one, and from itself before a restart or a crash.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Whatever it tells of itself that stays as it is while it runs.
    pub(crate) name: String,
    /// When it started, in seconds since 1970 by its own clock.
    pub(crate) started: i64,
}

impl Identity {
    /// Tells whether both are the same server, which has run all the time.
    pub(super) fn is(&self, other: &Identity) -> bool {
        self.name == other.name && self.started.abs_diff(other.started) <= APART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_restarted_is_another_one() {
        let of = |name: &str, started| Identity { name: name.to_owned(), started };
        assert!(of("1 a 3306", 1_000).is(&of("1 a 3306", 1_002)));
        assert!(!of("1 a 3306", 1_000).is(&of("1 a 3306", 1_003)));
        assert!(!of("1 a 3306", 1_000).is(&of("2 a 3306", 1_000)));
    }
}
