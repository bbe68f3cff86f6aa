//! Which parts of the measurement are wanted.

use anyhow::{Context, Result};

use super::Run;
use crate::report::Report;

/// One part: figures that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Drains,
    Strategies,
    History,
    Relays,
    Producers,
    Rss,
    Latency,
    Snapshot,
    Backlog,
    Due,
}

impl Part {
    const ALL: [Part; 10] = [
        Part::Drains,
        Part::Strategies,
        Part::History,
        Part::Relays,
        Part::Producers,
        Part::Rss,
        Part::Latency,
        Part::Snapshot,
        Part::Backlog,
        Part::Due,
    ];

    /// Returns what is measured when nothing is named: all but what fills tables for minutes.
    pub(crate) fn usual() -> Vec<Part> {
        let long = [Part::Backlog, Part::Due];
        Part::ALL.into_iter().filter(|part| !long.contains(part)).collect()
    }

    /// Reads names with commas between them.
    pub(crate) fn read(names: &str) -> Result<Vec<Part>> {
        names.split(',').map(Part::named).collect()
    }

    fn named(name: &str) -> Result<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name).with_context(|| {
            let names: Vec<_> = Part::ALL.iter().map(|part| part.name()).collect();
            format!("there is no part {name:?}; there are {}", names.join(", "))
        })
    }

    fn name(self) -> &'static str {
        match self {
            Part::Drains => "drains",
            Part::Strategies => "strategies",
            Part::History => "history",
            Part::Relays => "relays",
            Part::Producers => "producers",
            Part::Rss => "rss",
            Part::Latency => "latency",
            Part::Snapshot => "snapshot",
            Part::Backlog => "backlog",
            Part::Due => "due",
        }
    }

    /// Measures this part.
    pub(super) async fn measure(self, run: &Run<'_>, report: &mut Report) -> Result<()> {
        match self {
            Part::Drains => run.drains(report).await,
            Part::Strategies => run.strategies(report).await,
            Part::History => run.history(report).await,
            Part::Relays => run.relays(report).await,
            Part::Producers => run.producers(report).await,
            Part::Rss => run.rss(report).await,
            Part::Latency => run.latency(report).await,
            Part::Snapshot => run.snapshot(report).await,
            Part::Backlog => run.backlog(report).await,
            Part::Due => run.due(report).await,
        }
    }
}
