//! Measures on this machine, in this run: each figure beside the bare loop that it is a share of.
//!
//! `bench sqlite [--json] [--events N]`

mod drain;
mod fill;
mod process;
mod raw;
mod report;

use anyhow::{Context, Result, bail};

use report::{Figure, Report};

/// How often each pair is measured, one after the other.
const ROUNDS: usize = 3;

struct Asked {
    json: bool,
    events: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let asked = read(std::env::args().skip(1))?;
    let report = sqlite(asked.events).await?;
    if asked.json { report.print_json() } else { report.print_table() }
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked = Asked { json: false, events: 100_000 };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "sqlite" => {}
            "--json" => asked.json = true,
            "--events" => {
                asked.events = args.next().context("--events N")?.parse().context("--events N")?;
            }
            other => bail!("{other:?} is unknown; write: bench sqlite [--json] [--events N]"),
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
            let raw = raw::drain(&full.copy()?, events, history).await?;
            let relay = drain::drain(&full.copy()?, events, history).await?;
            pair.push((raw, relay));
        }
    }
    let [plain, history] = pairs;
    let mut report = Report::new(events);
    report.pair("sqlite_drain_vs_raw", "read, delete", &plain);
    report.pair("sqlite_drain_history_vs_raw", "read, keep as history, delete", &history);
    report.figure(Figure {
        name: "sqlite_rss_of_64_mib",
        what: "most memory while draining to stdout, MiB",
        value: process::peak_memory(&full).await? / 1024.0 / 1024.0,
        unit: 64.0,
    });
    report.figure(Figure {
        name: "sqlite_idle_of_a_core",
        what: "processor time of an idle relay, % of a core",
        value: process::idle_share().await? * 100.0,
        unit: 100.0,
    });
    Ok(report)
}
