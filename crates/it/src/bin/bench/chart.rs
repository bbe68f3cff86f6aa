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
    ("What producers pay", &["put"]),
    ("From commit to sink, beside a bare LISTEN loop: less is better", &["latency_"]),
    ("The relay beside a bare loop of the same client", &["relay_vs_limit"]),
    ("The same with history, which the bare loop has not", &["relay_history_vs_limit"]),
    ("The relay beside the official client in Java", &["relay_vs_java"]),
];

/// The pictures: what a file is named after, and what is shown as its name.
const PICTURES: &[(&str, &str)] = &[
    ("sqlite", "SQLite"),
    ("postgres", "PostgreSQL"),
    ("postgres_18", "PostgreSQL 18"),
    ("mysql", "MySQL"),
    ("mariadb", "MariaDB"),
    ("mariadb_10.5", "MariaDB 10.5"),
    (BROKERS, "Brokers"),
];

/// All brokers are in one picture, where each bar has the name of its broker.
const BROKERS: &str = "brokers";

/// A ratio with its name, and its goal if it has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) ratio: f64,
    pub(crate) goal: Option<Goal>,
}

/// Draws the ratios of one picture into a file.
pub(crate) fn write(ratios: &[Ratio], file: &Path) -> Result<()> {
    std::fs::write(file, draw(ratios)?).with_context(|| file.display().to_string())
}

/// Draws every picture whose ratios stand in the tables of a page, into files beside it that are
/// named after them.
pub(crate) fn illustrate(page: &Path) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    for (picture, ratios) in tables(&text) {
        write(&ratios, &page.with_file_name(format!("{picture}.svg")))?;
    }
    Ok(())
}

/// Returns the pictures of a page with their ratios.
fn tables(page: &str) -> Vec<(&'static str, Vec<Ratio>)> {
    let found: Vec<Ratio> = page.lines().filter_map(row).collect();
    let of = |picture: &str| {
        let own = |ratio: &&Ratio| shown_in(ratio) == Some(picture);
        found.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    let pictures = PICTURES.iter().map(|(picture, _)| (*picture, of(picture)));
    pictures.filter(|(_, ratios)| !ratios.is_empty()).collect()
}

/// Returns the picture that a ratio belongs to.
fn shown_in(ratio: &Ratio) -> Option<&'static str> {
    let (server, _) = split(&ratio.name)?;
    Some(if crate::brokers::usual(server).is_some() { BROKERS } else { server })
}

/// Reads a row of a table: the name in its first cell, the ratio in the fourth, and after that
/// what was measured.
fn row(line: &str) -> Option<Ratio> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, _, _, ratio, what @ ..] = &cells[..] else { return None };
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    let goal = Goal::of(name, &what.join(" "));
    Some(Ratio { name: name.to_owned(), ratio: ratio.parse().ok()?, goal })
}

fn draw(ratios: &[Ratio]) -> Result<String> {
    let picture = ratios.first().and_then(shown_in).context("there is nothing to draw")?;
    let shown = PICTURES.iter().find(|(name, _)| *name == picture);
    let (_, shown) = shown.context("no such picture")?;
    let one = ratios.iter().all(|ratio| shown_in(ratio) == Some(picture));
    ensure!(one, "a chart is of one store, or of brokers, not of {picture} and another");
    let named = |ratio: &Ratio| match parts(ratio) {
        (broker, _) if picture == BROKERS => broker.to_owned(),
        (_, figure) => figure.to_owned(),
    };
    let group = |(heading, prefixes): &(&'static str, &[&str])| {
        let of = |prefix| ratios.iter().filter(move |ratio| parts(ratio).1.starts_with(prefix));
        (*heading, prefixes.iter().copied().flat_map(of).collect::<Vec<_>>())
    };
    let sections: Vec<_> = SECTIONS.iter().map(group).collect();
    let drawn = || sections.iter().flat_map(|(_, bars)| bars);
    let edge = drawn().filter_map(|bar| bar.goal.map(Goal::edge)).fold(1.0, f64::max);
    let most = drawn().map(|bar| bar.ratio).fold(edge, f64::max);
    // One that is far out would leave no room for the others: it is cut.
    let mut svg = Svg::new(most.min(2.0 * edge));
    svg.title(&format!("{shown}: each figure as a share of what it stands beside"));
    for (heading, bars) in sections.iter().filter(|(_, bars)| !bars.is_empty()) {
        svg.heading(heading);
        for bar in bars {
            svg.bar(&named(bar), bar.ratio, bar.goal);
        }
    }
    Ok(svg.end())
}

/// Returns the server of a figure and the rest of its name.
fn parts(ratio: &Ratio) -> (&str, &str) {
    split(&ratio.name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks").join(name)
    }

    #[test]
    fn the_pictures_show_the_tables() {
        for (name, least) in [("stores.md", 1), ("brokers.md", 0)] {
            let page = page(name);
            let tables = tables(&std::fs::read_to_string(&page).unwrap());
            assert!(tables.len() >= least, "no tables were found in {name}");
            for (picture, ratios) in tables {
                let there = std::fs::read_to_string(page.with_file_name(format!("{picture}.svg")));
                let same = there.unwrap() == draw(&ratios).unwrap();
                assert!(same, "draw {picture} anew: bench chart docs/benchmarks/{name}");
            }
        }
    }

    fn one(name: &str, ratio: f64, what: &str) -> Ratio {
        Ratio { name: name.to_owned(), ratio, goal: Goal::of(name, what) }
    }

    #[test]
    fn a_bar_tells_whether_its_goal_is_met() {
        let draw = |name, ratio| draw(&[one(name, ratio, "5000000 rows")]).unwrap();
        assert!(draw("postgres_flat", 0.9).contains("goal ≥ 0.9: met"));
        assert!(draw("postgres_flat", 0.89).contains("goal ≥ 0.9: missed"));
        assert!(draw("postgres_latency_p99", 2.0).contains("goal ≤ 2: met"));
        assert!(draw("postgres_latency_p99", 2.1).contains("goal ≤ 2: missed"));
        assert!(!draw("mysql_put", 0.8).contains("goal ≥"), "it has none");
        assert!(!draw("mysql_rss_mib", 30.0).contains("rss"), "it is no ratio");
    }

    #[test]
    fn a_chart_is_of_one_server() {
        let both = ["postgres_flat", "postgres_18_flat"].map(|name| one(name, 1.0, ""));
        draw(&both).unwrap_err();
        draw(&[]).unwrap_err();
    }

    #[test]
    fn brokers_share_a_chart_and_each_bar_has_its_brokers_name() {
        let both = ["nats_relay_vs_limit", "kafka_relay_vs_limit"].map(|name| one(name, 0.9, ""));
        let drawn = draw(&both).unwrap();
        assert!(drawn.contains(">nats<") && drawn.contains(">kafka<"), "{drawn}");
        assert_eq!(drawn.matches("goal ≥ 0.8: met").count(), 2);
    }

    #[test]
    fn a_row_of_a_page_has_a_name_and_a_ratio() {
        let read = row("| `mysql_flat` | 8000 | 8137 | 1.006 | with 100000 behind |");
        assert_eq!(read, Some(one("mysql_flat", 1.006, "with 100000 behind")));
        let read = row("| `mysql_flat` | 8000 | 8137 | 1.006 | ≥ 0.9 | with 5000000 behind |");
        assert_eq!(read.unwrap().goal, Some(Goal::AtLeast(0.9)));
        assert_eq!(row("| `mysql_claim_p50_ms` |  | 35.67 |  | how long |"), None);
        assert_eq!(row("| --- | ---: | ---: | ---: | --- |"), None);
        assert_eq!(row("| | beside | measured | ratio |"), None);
    }
}
