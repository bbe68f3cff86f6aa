//! What is wanted of each figure, in one place.

use std::fmt;

/// What is wanted of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

use Goal::{AtLeast, AtMost};

impl Goal {
    /// Returns the goal of a figure, if it has one and enough rows were measured to speak of it:
    /// what was measured says how many.
    pub(crate) fn of(name: &str, what: &str) -> Option<Goal> {
        let (server, figure) = split(name)?;
        let wanted = GOALS.iter().find(|(servers, wanted, _, _)| {
            *wanted == figure && (servers.is_empty() || servers.contains(&server))
        });
        let (_, _, goal, rows) = wanted?;
        let numbers = what.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
        (numbers.max().unwrap_or(0) >= *rows).then_some(*goal)
    }

    /// Returns the ratio that is just good enough.
    pub(crate) fn edge(self) -> f64 {
        let (AtLeast(edge) | AtMost(edge)) = self;
        edge
    }

    pub(crate) fn is_met(self, ratio: f64) -> bool {
        match self {
            AtLeast(edge) => ratio >= edge,
            AtMost(edge) => ratio <= edge,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtLeast(edge) => write!(f, "≥ {edge}"),
            AtMost(edge) => write!(f, "≤ {edge}"),
        }
    }
}

/// Takes the name of a figure apart: the server, and what is measured there.
pub(crate) fn split(name: &str) -> Option<(&'static str, &str)> {
    SERVERS.iter().find_map(|server| {
        let figure = name.strip_prefix(server)?.strip_prefix('_')?;
        Some((*server, figure))
    })
}

/// The servers as figures name them, longer names before those that they begin with.
const SERVERS: &[&str] = &[
    "sqlite",
    "postgres_18",
    "postgres",
    "mysql",
    "mariadb_10.5",
    "mariadb",
    "rocketmq",
    "kafka",
    "rabbitmq",
    "nats",
    "redis",
    "http",
];
const POSTGRES: &[&str] = &["postgres", "postgres_18"];
const FAMILY: &[&str] = &["mysql", "mariadb"];
const EVERY: &[&str] = &[];

/// On which servers, of which figure, what, and from how many rows on.
const GOALS: &[(&[&str], &str, Goal, u64)] = &[
    (&["sqlite"], "drain_vs_raw", AtLeast(0.5), 0),
    (&["sqlite"], "rss_of_64_mib", AtMost(1.0), 0),
    (&["sqlite"], "idle_of_a_core", AtMost(0.01), 0),
    (POSTGRES, "own_vs_claim_delete", AtLeast(2.5), 0),
    (POSTGRES, "own_history_vs_claim_delete", AtLeast(1.6), 0),
    (POSTGRES, "skip_locked_vs_claim_delete", AtLeast(0.8), 0),
    (FAMILY, "own_vs_claim_delete", AtLeast(2.0), 0),
    (EVERY, "flat", AtLeast(0.9), 5_000_000),
    (EVERY, "flat_backlog", AtLeast(0.9), 5_000_000),
    (EVERY, "flat_due", AtLeast(0.9), 1_000_000),
    (EVERY, "flat_due_ahead", AtLeast(0.9), 1_000_000),
    (EVERY, "snapshot", AtLeast(0.8), 600_000),
    (EVERY, "latency_p50", AtMost(2.0), 0),
    (EVERY, "latency_p99", AtMost(2.0), 0),
    (EVERY, "latency_notify_p50", AtMost(2.0), 0),
    (EVERY, "latency_notify_p99", AtMost(2.0), 0),
    (EVERY, "rss_mib", AtMost(64.0), 0),
    (EVERY, "relay_vs_limit", AtLeast(0.8), 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_of_its_server() {
        let of = |name| Goal::of(name, "");
        assert_eq!(of("postgres_18_own_vs_claim_delete"), Some(AtLeast(2.5)));
        assert_eq!(of("mariadb_own_vs_claim_delete"), Some(AtLeast(2.0)));
        assert_eq!(of("mariadb_10.5_rss_mib"), Some(AtMost(64.0)));
        assert_eq!(of("kafka_relay_vs_limit"), Some(AtLeast(0.8)));
        assert_eq!(of("mysql_skip_locked_vs_claim_delete"), None);
        assert_eq!(of("oracle_rss_mib"), None);
    }

    #[test]
    fn too_few_rows_reach_no_goal() {
        let of = |what| Goal::of("mysql_flat", what);
        assert_eq!(of("with 5000000 sent rows behind, beside 10000"), Some(AtLeast(0.9)));
        assert_eq!(of("with 4999999 sent rows behind, beside 10000"), None);
        assert_eq!(of("with some behind"), None);
    }
}
