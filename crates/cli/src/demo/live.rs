//! The live line: what happens, on one line that is drawn again, or a line a second in a file.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Counts;
use rustix::termios::tcgetwinsize;

use super::inventory::Inventory;
use super::shop::Shop;
use crate::config::duration;
use crate::out::Out;
use crate::outboxes::Opened;
use crate::table::Tone;

/// What is shown while the demo runs.
pub(crate) struct Live {
    shop: Shop,
    inventory: Inventory,
    outbox: Arc<Opened>,
    out: Out,
    redraw: bool,
}

/// Says a line beside the live one: with `--json` standard output is for the summary alone.
pub(crate) fn say(out: Out, text: &str) {
    if out.json {
        out.aside(Tone::Plain, text);
    } else {
        // Nobody listening is no reason to end the demo.
        let _ = out.line(text);
    }
}

impl Live {
    /// Looks at the shop, the inventory and the outbox.
    pub(crate) fn new(shop: Shop, inventory: Inventory, outbox: Arc<Opened>, out: Out) -> Live {
        let tty = if out.json { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        Live { shop, inventory, outbox, out, redraw: tty }
    }

    /// Shows what happens, for as long as it is asked to.
    pub(crate) async fn show(&self) {
        let begun = Instant::now();
        self.show_first(begun).await;
        let every = Duration::from_millis(if self.redraw { 200 } else { 1000 });
        let mut tick = tokio::time::interval(every);
        loop {
            tick.tick().await;
            if let Ok(counts) = self.outbox.outbox.catalog().count().await {
                self.draw(&self.line(&counts, begun.elapsed()));
            }
        }
    }

    async fn show_first(&self, begun: Instant) {
        while self.inventory.taken_in() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let took = duration::short(begun.elapsed());
        say(self.out, &format!("The first order was placed, relayed and taken in after {took}."));
    }

    fn line(&self, counts: &Counts, elapsed: Duration) -> String {
        let part = |needed, tone, text| Part { needed, tone, text };
        let dead = if counts.dead > 0 { Tone::Bad } else { Tone::Dim };
        let waiting = if counts.pending() > 0 { Tone::Warn } else { Tone::Dim };
        let state = match self.inventory.is_up() {
            true => part(3, Tone::Dim, "inventory up".to_owned()),
            false => part(3, Tone::Warn, "inventory down: the lane rests".to_owned()),
        };
        let parts = vec![
            part(1, Tone::Dim, format!("{:>4}s", elapsed.as_secs())),
            part(5, Tone::Plain, format!("placed {:<4}", self.shop.placed())),
            part(6, Tone::Good, format!("sent {:<4}", counts.sent)),
            part(4, waiting, format!("pending {:<3}", counts.pending())),
            part(5, dead, format!("dead {:<2}", counts.dead)),
            part(2, Tone::Plain, format!("taken in {:<4}", self.inventory.taken_in())),
            part(0, Tone::Dim, format!("duplicates {:<2}", self.inventory.duplicates())),
            state,
        ];
        let parts = fit(parts, if self.redraw { self.columns() } else { usize::MAX });
        let painted = parts.iter().map(|part| self.out.paint(part.tone, &part.text));
        painted.collect::<Vec<_>>().join(GAP)
    }

    fn columns(&self) -> usize {
        let size = match self.out.json {
            true => tcgetwinsize(io::stderr()),
            false => tcgetwinsize(io::stdout()),
        };
        // A terminal that knows no width says 0.
        let columns = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        columns.unwrap_or(80)
    }

    fn draw(&self, line: &str) {
        if !self.redraw {
            return say(self.out, line);
        }
        // Without wrapping, a line that even so is too long is cut and not spread.
        let text = format!("\r\u{1b}[?7l{line}\u{1b}[K\u{1b}[?7h");
        let write = |writer: &mut dyn Write| {
            writer.write_all(text.as_bytes()).and_then(|()| writer.flush())
        };
        // Nobody listening is no reason to end the demo.
        let _ = if self.out.json { write(&mut io::stderr()) } else { write(&mut io::stdout()) };
    }

    /// Leaves the live line behind.
    pub(crate) fn finish(&self) {
        if self.redraw {
            say(self.out, "");
        }
        say(self.out, "Stopping: no more orders; the relay finishes what is under way …");
    }
}

/// What stands between two parts of the line.
const GAP: &str = "  ";

/// A part of the live line.
#[derive(Debug)]
struct Part {
    /// How much it is missed; the least needed part goes first.
    needed: u8,
    tone: Tone,
    text: String,
}

/// Leaves out what is least needed until the line fits.
fn fit(mut parts: Vec<Part>, columns: usize) -> Vec<Part> {
    let width = |parts: &[Part]| {
        let texts: usize = parts.iter().map(|part| part.text.chars().count()).sum();
        texts + GAP.len() * parts.len().saturating_sub(1)
    };
    while parts.len() > 1 && width(&parts) > columns {
        let least = (0..parts.len()).min_by_key(|at| parts[*at].needed);
        parts.remove(least.expect("there is more than one part"));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_what_is_needed_most_and_fits_the_terminal() {
        let shown = |columns| {
            let texts = [(2, "placed 10"), (0, "duplicates 3"), (3, "sent 7"), (1, "up")];
            let part = |(needed, text): (u8, &str)| {
                let text = text.to_owned();
                Part { needed, tone: Tone::Plain, text }
            };
            let parts = fit(texts.map(part).into(), columns);
            parts.into_iter().map(|part| part.text).collect::<Vec<_>>().join(GAP)
        };
        assert_eq!(shown(usize::MAX), "placed 10  duplicates 3  sent 7  up");
        assert_eq!(shown(35), shown(usize::MAX));
        assert_eq!(shown(34), "placed 10  sent 7  up");
        assert_eq!(shown(20), "placed 10  sent 7");
        assert_eq!(shown(1), "sent 7");
    }
}
