//! Measures on this machine, in this run: each figure beside the bare loop that it is a share of.
//!
//! `bench sqlite [--json] [--events N]`,
//! `bench stores [NAME …] [--only PART,…] [--json] [--chart FILE] [--events N] [--behind N]`,
//! `bench brokers [NAME …] [--json] [--page] [--chart FILE] [--events N]`, or `bench chart PAGE`,
//! which draws the tables of a page.

mod asked;
mod brokers;
mod chart;
mod drain;
mod fill;
mod goals;
mod process;
mod raw;
mod report;
mod stores;

use anyhow::{Result, bail, ensure};

use asked::Asked;
use drain::How;
use report::{Figure, Report};
use stores::{Part, Sizes};

/// How often each pair is measured, one after the other.
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let words: Vec<&str> = asked.words.iter().map(String::as_str).collect();
    let report = match words[..] {
        ["chart", page] => return chart::illustrate(page.as_ref()),
        [] | ["sqlite"] => {
            ensure!(asked.only.is_none(), "only stores are measured in parts");
            sqlite(asked.events.unwrap_or(stores::EVENTS)).await?
        }
        ["stores", ..] => {
            let one = words.len() == 2;
            ensure!(one || asked.chart.is_none(), "a chart is of one store: name it");
            let parts = asked.only.clone().unwrap_or_else(Part::usual);
            let sizes = Sizes { events: asked.events, behind: asked.behind };
            stores::measure(&asked.words[1..], &parts, &sizes).await?
        }
        ["brokers", ..] => {
            ensure!(asked.only.is_none(), "only stores are measured in parts");
            brokers::measure(&asked.words[1..], asked.events).await?
        }
        _ => bail!(
            "{words:?} is unknown; write: bench sqlite, bench stores, bench brokers, or bench \
             chart PAGE"
        ),
    };
    if let Some(file) = &asked.chart {
        chart::write(&report.ratios(), file)?;
    }
    match (asked.json, asked.page) {
        (true, _) => report.print_json(),
        (false, true) => report.print_page(),
        (false, false) => report.print_table(),
    }
}

async fn sqlite(events: usize) -> Result<Report> {
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
    let mut report = Report::default();
    report.pair("sqlite_drain_vs_raw", "read, delete", &plain);
    report.pair("sqlite_drain_history_vs_raw", "read, keep as history, delete", &history);
    let copy = full.copy()?;
    let memory = process::peak_memory(copy.folder(), &copy.url(), events).await?;
    report.figure(Figure {
        name: "sqlite_rss_of_64_mib".into(),
        what: "most memory while draining to stdout, MiB",
        value: memory / 1024.0 / 1024.0,
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
