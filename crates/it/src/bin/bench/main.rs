//! Measures on this machine, in this run: each figure beside the bare loop that it is a share of.
//!
//! `bench sqlite [--json] [--events N]`, or
//! `bench stores [NAME …] [--json] [--events N] [--behind N]`

mod drain;
mod fill;
mod process;
mod raw;
mod report;
mod stores;

use anyhow::{Context, Result, bail};

use drain::How;
use report::{Figure, Report};

/// How often each pair is measured, one after the other.
const ROUNDS: usize = 3;

struct Asked {
    json: bool,
    events: usize,
    behind: usize,
    /// What to measure, and then where.
    words: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = read(std::env::args().skip(1))?;
    let report = match asked.words.split_first().map(|(what, names)| (what.as_str(), names)) {
        None | Some(("sqlite", [])) => sqlite(asked.events).await?,
        Some(("stores", names)) => stores::measure(names, asked.events, asked.behind).await?,
        Some((other, _)) => bail!("{other:?} is unknown; write: bench sqlite, or bench stores"),
    };
    if asked.json { report.print_json() } else { report.print_table() }
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked = Asked { json: false, events: 100_000, behind: 1_000_000, words: Vec::new() };
    while let Some(arg) = args.next() {
        let mut number = || {
            let given = args.next().with_context(|| format!("{arg} N"))?;
            given.parse().with_context(|| format!("{arg} N"))
        };
        match arg.as_str() {
            "--json" => asked.json = true,
            "--events" => asked.events = number()?,
            "--behind" => asked.behind = number()?,
            word if !word.starts_with('-') => asked.words.push(word.to_owned()),
            other => bail!("{other:?} is unknown; there are --json, --events N, --behind N"),
        }
    }
    Ok(asked)
}

async fn sqlite(events: usize) -> Result<Report> {
    process::build()?;
    let full = fill::Full::new(events).await?;
    let mut pairs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (history, pair) in [false, true].into_iter().zip(&mut pairs) {
            let copy = full.copy()?;
            let raw = raw::drain(&copy.url(), events, history, drain::BATCH).await?;
            let copy = full.copy()?;
            let relay = drain::drain(&copy.url(), events, How::usual(history)).await?;
            pair.push((raw, relay.rate));
        }
    }
    let [plain, history] = pairs;
    let mut report = Report::new(events);
    report.pair("sqlite_drain_vs_raw", "read, delete", &plain);
    report.pair("sqlite_drain_history_vs_raw", "read, keep as history, delete", &history);
    report.figure(Figure {
        name: "sqlite_rss_of_64_mib".into(),
        what: "most memory while draining to stdout, MiB",
        value: process::peak_memory(&full).await? / 1024.0 / 1024.0,
        unit: 64.0,
    });
    report.figure(Figure {
        name: "sqlite_idle_of_a_core".into(),
        what: "processor time of an idle relay, % of a core",
        value: process::idle_share().await? * 100.0,
        unit: 100.0,
    });
    Ok(report)
}
