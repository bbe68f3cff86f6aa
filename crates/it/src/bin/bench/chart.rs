//! Ratios as a picture: a bar each, and a line across it where its goal is.
//!
//! The picture has its own ground, so that it can be read on light and dark pages. It has no
//! scripts, and no fonts but the reader's; its words are text.

mod svg;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::goals::{Goal, split};
use svg::Svg;

/// What stands together, by how the names of figures begin. What is in none is no share of
/// anything, and is left out.
const SECTIONS: &[(&str, &[&str])] = &[
    ("The relay beside bare loops", &["drain_", "own_vs_", "own_history_vs_"]),
    ("Strategies that compete", &["skip_locked_vs_", "cas_vs_", "preempt_vs_"]),
    ("With much beside it, or a snapshot open", &["flat", "snapshot"]),
    ("Several relays beside one", &["relays_"]),
    ("Producers with an event, beside none", &["put"]),
    ("From commit to sink, beside a bare LISTEN loop: less is better", &["latency_"]),
];

const SERVERS: &[(&str, &str)] = &[
    ("sqlite", "SQLite"),
    ("postgres", "PostgreSQL"),
    ("postgres_18", "PostgreSQL 18"),
    ("mysql", "MySQL"),
    ("mariadb", "MariaDB"),
    ("mariadb_10.5", "MariaDB 10.5"),
];

/// A ratio with its name, without the server.
struct Bar<'a> {
    name: &'a str,
    ratio: f64,
    goal: Option<Goal>,
}

/// Draws the ratios of one server into a file.
pub(crate) fn write(ratios: &[(String, f64)], file: &Path) -> Result<()> {
    let server = ratios.first().and_then(|(name, _)| split(name)).context("nothing to draw")?.0;
    let (_, shown) = SERVERS.iter().find(|(name, _)| *name == server).context("no such server")?;
    let mut sections = Vec::new();
    for (heading, prefixes) in SECTIONS {
        let mut bars = Vec::new();
        for prefix in *prefixes {
            for (name, ratio) in ratios {
                let (of, figure) = split(name).with_context(|| format!("whose is {name}?"))?;
                ensure!(of == server, "a chart is of one server, not of {server} and {of}");
                if figure.starts_with(prefix) {
                    bars.push(Bar { name: figure, ratio: *ratio, goal: Goal::of(name) });
                }
            }
        }
        if !bars.is_empty() {
            sections.push((*heading, bars));
        }
    }
    std::fs::write(file, draw(shown, &sections)).with_context(|| file.display().to_string())
}

/// Draws every server whose ratios stand in the tables of a page, into files beside it that are
/// named after the servers.
pub(crate) fn illustrate(page: &Path) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let found: Vec<(String, f64)> = text.lines().filter_map(row).collect();
    for (server, _) in SERVERS {
        let own = |(name, _): &&(String, f64)| split(name).is_some_and(|(of, _)| of == *server);
        let ratios: Vec<(String, f64)> = found.iter().filter(own).cloned().collect();
        if !ratios.is_empty() {
            write(&ratios, &page.with_file_name(format!("{server}.svg")))?;
        }
    }
    Ok(())
}

/// Reads the name and the ratio out of a row of a table: the first cell and the fourth.
fn row(line: &str) -> Option<(String, f64)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, _, _, ratio, ..] = cells[..] else { return None };
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    Some((name.to_owned(), ratio.parse().ok()?))
}

fn draw(server: &str, sections: &[(&str, Vec<Bar<'_>>)]) -> String {
    let bars = || sections.iter().flat_map(|(_, bars)| bars);
    let edge = |bar: &Bar<'_>| bar.goal.map_or(0.0, Goal::edge).max(bar.ratio);
    let mut svg = Svg::new(bars().map(edge).fold(1.0, f64::max));
    svg.title(&format!("{server}: each figure as a share of what it stands beside"));
    for (heading, bars) in sections {
        svg.heading(heading);
        for bar in bars {
            svg.bar(bar.name, bar.ratio, bar.goal);
        }
    }
    svg.end()
}
