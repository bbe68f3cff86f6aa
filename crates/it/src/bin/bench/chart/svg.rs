//! The drawing itself, from the top to the bottom.

use std::fmt::Write as _;

use crate::goals::Goal;

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 20.0;
/// Where values end, bars start and end, and goals are told.
const VALUES: f64 = 330.0;
const START: f64 = 342.0;
const END: f64 = 705.0;
const GOALS: f64 = 720.0;
/// How high a row is, and the bar in it.
const ROW: f64 = 22.0;
const BAR: f64 = 12.0;
/// How many lines the scale has at the most.
const LINES: f64 = 8.0;

const STYLE: &str = "\
    text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2328}\
    .title{font-size:15px;font-weight:600}.head{font-weight:600}.note{fill:#59636e}\
    .value{font-variant-numeric:tabular-nums}\
    .name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\
    .ground{fill:#fff;stroke:#d1d9e0}.grid{stroke:#e3e8ed}.one{stroke:#8c959f}\
    .bar{fill:#8193a8}.met{fill:#2c974b}.missed{fill:#d4762c}\
    .goal{stroke:#1f2328;stroke-width:2}.cut{fill:none;stroke:#fff;stroke-width:2}\
    @media(prefers-color-scheme:dark){\
    text{fill:#e6edf3}.note{fill:#9198a1}.ground{fill:#0d1117;stroke:#3d444d}\
    .grid{stroke:#262c34}.one{stroke:#6e7681}.bar{fill:#6b7d93}.met{fill:#3fa55b}\
    .missed{fill:#c9702b}.goal{stroke:#e6edf3}.cut{stroke:#0d1117}}";

/// A picture that is drawn from the top.
pub(super) struct Svg {
    title: String,
    body: String,
    /// What the scale ends with, and how far its lines are apart.
    most: f64,
    step: f64,
    y: f64,
    /// From where to where there are bars.
    groups: Vec<(f64, f64)>,
}

impl Svg {
    /// Begins a picture for ratios up to `most`.
    pub(super) fn new(most: f64) -> Svg {
        let steps = [0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
        let step = steps.into_iter().find(|step| most / step <= LINES).unwrap_or(most / LINES);
        let most = (most / step).ceil() * step;
        let (title, body, groups) = Default::default();
        Svg { title, body, most, step, y: MARGIN, groups }
    }

    pub(super) fn title(&mut self, title: &str) {
        self.title = escaped(title);
        self.y += 12.0;
        self.text(MARGIN, "title", "start", title);
        self.y += 20.0;
        let note = "A line across a row is its goal. At 1, both sides are alike.";
        self.text(MARGIN, "note", "start", note);
        self.y += 12.0;
    }

    /// Begins a group of bars.
    pub(super) fn heading(&mut self, heading: &str) {
        self.y += 24.0;
        self.text(MARGIN, "head", "start", heading);
        self.y += 8.0;
        self.groups.push((self.y, self.y));
    }

    /// Draws one bar.
    pub(super) fn bar(&mut self, name: &str, ratio: f64, goal: Option<Goal>) {
        let class = match goal.map(|goal| goal.is_met(ratio)) {
            None => "bar",
            Some(true) => "met",
            Some(false) => "missed",
        };
        let (left, top) = (self.at(0.0), self.y + (ROW - BAR) / 2.0);
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
             height=\"{BAR}\" rx=\"2\"/>",
            self.at(ratio) - left
        );
        if ratio > self.most {
            let _ = writeln!(
                self.body,
                "<path class=\"cut\" d=\"M{:.1} {:.1}l5 -{ROW}m4 0l-5 {ROW}\"/>",
                END - 16.0,
                self.y + ROW
            );
        }
        if let Some(goal) = goal {
            self.line("goal", goal.edge(), self.y + 2.0, self.y + ROW - 2.0);
        }
        let top = self.y;
        self.y += 15.0;
        self.text(MARGIN, "name", "start", name);
        self.text(VALUES, "value", "end", &format!("{ratio:.2}"));
        if let Some(goal) = goal {
            let end = if goal.is_met(ratio) { "met" } else { "missed" };
            self.text(GOALS, "note", "start", &format!("goal {goal}: {end}"));
        }
        self.y = top + ROW;
        if let Some((_, bottom)) = self.groups.last_mut() {
            *bottom = self.y;
        }
    }

    /// Draws the scale under it all, and returns the picture.
    pub(super) fn end(mut self) -> String {
        let (bars, groups) = (std::mem::take(&mut self.body), std::mem::take(&mut self.groups));
        self.y += 18.0;
        let mut value = 0.0;
        while value < self.most + self.step / 2.0 {
            let class = if (value - 1.0).abs() < 1e-9 { "one" } else { "grid" };
            for (top, bottom) in &groups {
                self.line(class, value, *top, *bottom);
            }
            let shown = format!("{}", (value * 100.0).round() / 100.0);
            self.text(self.at(value), "note", "middle", &shown);
            value += self.step;
        }
        let (height, title, scale) = (self.y + MARGIN / 2.0, &self.title, &self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title\">\n\
             <title id=\"title\">{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n\
             {scale}{bars}</svg>\n",
            WIDTH - 1.0,
            height - 1.0
        )
    }

    /// Returns where a ratio is.
    fn at(&self, ratio: f64) -> f64 {
        START + (END - START) * (ratio / self.most).clamp(0.0, 1.0)
    }

    fn line(&mut self, class: &str, ratio: f64, top: f64, bottom: f64) {
        let x = self.at(ratio);
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" \
             y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>"
        );
    }

    fn text(&mut self, x: f64, class: &str, anchor: &str, text: &str) {
        let (y, text) = (self.y, escaped(text));
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" \
             text-anchor=\"{anchor}\">{text}</text>"
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
