//! The figures, for people and for scripts.

use std::io::Write;

use anyhow::Result;

use crate::chart::Ratio;
use crate::goals::Goal;

/// One figure, and what it is a share of.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: f64,
}

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

/// One ratio, and what it is made of.
struct Line {
    name: String,
    beside: String,
    value: String,
    ratio: f64,
    what: String,
}

impl Report {
    /// Adds rounds of (raw, relay), in rows per second.
    pub(crate) fn pair(&mut self, name: impl Into<String>, what: &str, rounds: &[(f64, f64)]) {
        self.medians(name.into(), what, rounds, 0);
    }

    /// Adds rounds of (raw, relay), in milliseconds.
    pub(crate) fn times(&mut self, name: impl Into<String>, what: &str, rounds: &[(f64, f64)]) {
        self.medians(name.into(), what, rounds, 2);
    }

    fn medians(&mut self, name: String, what: &str, rounds: &[(f64, f64)], places: usize) {
        let raw = median(rounds.iter().map(|(raw, _)| *raw));
        let relay = median(rounds.iter().map(|(_, relay)| *relay));
        let ratio = median(rounds.iter().map(|(raw, relay)| relay / raw));
        let (beside, value) = (format!("{raw:.places$}"), format!("{relay:.places$}"));
        self.line(Line { name, beside, value, ratio, what: what.to_owned() });
    }

    /// Adds one figure.
    pub(crate) fn figure(&mut self, figure: Figure) {
        let Figure { name, what, value, unit } = figure;
        let (beside, ratio) = (String::new(), value / unit);
        self.line(Line { name, beside, value: format!("{value:.2}"), ratio, what: what.into() });
    }

    /// Adds a line, and says so at once to whoever waits for the end.
    fn line(&mut self, line: Line) {
        let Line { name, beside, value, ratio, .. } = &line;
        let beside = if beside.is_empty() { "nothing" } else { beside };
        say(&format!("{name}: {ratio:.3} ({value} beside {beside})"));
        self.lines.push(line);
    }

    /// Returns what a chart shows.
    pub(crate) fn ratios(&self) -> Vec<Ratio> {
        let ratio = |line: &Line| {
            let Line { name, ratio, what, .. } = line;
            Ratio { name: name.clone(), ratio: *ratio, goal: Goal::of(name, what) }
        };
        self.lines.iter().map(ratio).collect()
    }

    pub(crate) fn print_json(&self) -> Result<()> {
        let flat: serde_json::Map<String, serde_json::Value> = self
            .lines
            .iter()
            .map(|line| (line.name.clone(), ((line.ratio * 1e4).round() / 1e4).into()))
            .collect();
        writeln!(std::io::stdout(), "{}", serde_json::Value::Object(flat))?;
        Ok(())
    }

    /// Prints the table as the pages of `docs/benchmarks` hold it, where `bench chart` reads it.
    pub(crate) fn print_page(&self) -> Result<()> {
        let mut out = std::io::stdout();
        writeln!(out, "| | beside, per s | measured, per s | ratio | beside what |")?;
        writeln!(out, "| --- | ---: | ---: | ---: | --- |")?;
        for Line { name, beside, value, ratio, what } in &self.lines {
            writeln!(out, "| `{name}` | {beside} | {value} | {ratio:.3} | {what} |")?;
        }
        Ok(())
    }

    pub(crate) fn print_table(&self) -> Result<()> {
        let mut out = std::io::stdout();
        let rounds = crate::ROUNDS;
        writeln!(out, "300 bytes an event, medians of {rounds} rounds, per second")?;
        let head = ["", "beside", "measured", "ratio", "goal", ""].map(str::to_owned);
        let cells = self.lines.iter().map(|line| {
            let Line { name, beside, value, ratio, what } = line;
            let goal = Goal::of(name, what).map(|goal| goal.to_string()).unwrap_or_default();
            [name, beside, value, &format!("{ratio:.3}"), &goal, what].map(String::clone)
        });
        let wide = self.lines.iter().map(|line| line.name.len()).max().unwrap_or_default();
        for [name, beside, value, ratio, goal, what] in std::iter::once(head).chain(cells) {
            let line =
                format!("{name:<wide$} {beside:>12} {value:>12} {ratio:>7} {goal:>6}  {what}");
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Says something to whoever waits.
pub(crate) fn say(what: &str) {
    // Nobody may be looking.
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
