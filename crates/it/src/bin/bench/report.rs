//! The figures, for people and for scripts.

use std::io::Write;

use anyhow::Result;

/// One figure, and what it is a share of.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: f64,
}

/// Everything that was measured.
pub(crate) struct Report {
    events: usize,
    /// Name, what it is measured beside, what it is, the ratio, and what that means.
    lines: Vec<[String; 5]>,
    ratios: Vec<(String, f64)>,
}

impl Report {
    pub(crate) fn new(events: usize) -> Report {
        Report { events, lines: Vec::new(), ratios: Vec::new() }
    }

    /// Adds rounds of (raw, relay), in rows per second.
    pub(crate) fn pair(&mut self, name: impl Into<String>, what: &str, rounds: &[(f64, f64)]) {
        let raw = median(rounds.iter().map(|(raw, _)| *raw));
        let relay = median(rounds.iter().map(|(_, relay)| *relay));
        let ratio = median(rounds.iter().map(|(raw, relay)| relay / raw));
        self.line(name.into(), format!("{raw:.0}"), format!("{relay:.0}"), ratio, what);
    }

    /// Adds one figure.
    pub(crate) fn figure(&mut self, figure: Figure) {
        let Figure { name, what, value, unit } = figure;
        self.line(name, String::new(), format!("{value:.2}"), value / unit, what);
    }

    /// Adds a line, and says so at once to whoever waits for the end.
    fn line(&mut self, name: String, beside: String, value: String, ratio: f64, what: &str) {
        // Nobody may be looking.
        let beside_what = if beside.is_empty() { "nothing" } else { &beside };
        let _ = writeln!(std::io::stderr(), "{name}: {ratio:.3} ({value} beside {beside_what})");
        self.lines.push([name.clone(), beside, value, format!("{ratio:.3}"), what.to_owned()]);
        self.ratios.push((name, ratio));
    }

    pub(crate) fn print_json(&self) -> Result<()> {
        let flat: serde_json::Map<String, serde_json::Value> = self
            .ratios
            .iter()
            .map(|(name, ratio)| (name.clone(), ((ratio * 1e4).round() / 1e4).into()))
            .collect();
        writeln!(std::io::stdout(), "{}", serde_json::Value::Object(flat))?;
        Ok(())
    }

    pub(crate) fn print_table(&self) -> Result<()> {
        let mut out = std::io::stdout();
        writeln!(out, "{} events of 300 bytes, medians of {} rounds", self.events, crate::ROUNDS)?;
        let head = ["", "beside/s", "measured/s", "ratio", ""].map(str::to_owned);
        let wide = self.lines.iter().map(|line| line[0].len()).max().unwrap_or_default();
        for [name, beside, value, ratio, what] in std::iter::once(&head).chain(&self.lines) {
            let line = format!("{name:<wide$} {beside:>12} {value:>12} {ratio:>7}  {what}");
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
