//! The figures, for people and for scripts.

use std::io::Write;

use anyhow::Result;

/// One figure, and what it is a share of.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: f64,
}

/// Everything that was measured.
pub(crate) struct Report {
    events: usize,
    lines: Vec<String>,
    ratios: Vec<(&'static str, f64)>,
}

impl Report {
    pub(crate) fn new(events: usize) -> Report {
        Report { events, lines: Vec::new(), ratios: Vec::new() }
    }

    /// Adds rounds of (raw, relay), in rows per second.
    pub(crate) fn pair(&mut self, name: &'static str, what: &str, rounds: &[(f64, f64)]) {
        let raw = median(rounds.iter().map(|(raw, _)| *raw));
        let relay = median(rounds.iter().map(|(_, relay)| *relay));
        let ratio = median(rounds.iter().map(|(raw, relay)| relay / raw));
        self.lines.push(format!("{name:<30} {raw:>12.0} {relay:>12.0} {ratio:>7.3}  {what}"));
        self.ratios.push((name, ratio));
    }

    /// Adds one figure.
    pub(crate) fn figure(&mut self, figure: Figure) {
        let Figure { name, what, value, unit } = figure;
        let ratio = value / unit;
        self.lines.push(format!("{name:<30} {:>12} {value:>12.2} {ratio:>7.3}  {what}", ""));
        self.ratios.push((name, ratio));
    }

    pub(crate) fn print_json(&self) -> Result<()> {
        let flat: serde_json::Map<String, serde_json::Value> = self
            .ratios
            .iter()
            .map(|(name, ratio)| ((*name).to_owned(), ((ratio * 1e4).round() / 1e4).into()))
            .collect();
        writeln!(std::io::stdout(), "{}", serde_json::Value::Object(flat))?;
        Ok(())
    }

    pub(crate) fn print_table(&self) -> Result<()> {
        let mut out = std::io::stdout();
        writeln!(out, "{} events of 300 bytes, medians of {} rounds", self.events, crate::ROUNDS)?;
        let (raw, relay, ratio) = ("raw rows/s", "relay rows/s", "ratio");
        writeln!(out, "{:<30} {raw:>12} {relay:>12} {ratio:>7}", "")?;
        for line in &self.lines {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
