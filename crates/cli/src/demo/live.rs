//! The live line: what happens, on one line that is drawn again, or a line a second in a file.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::Counts;

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
        let paint = |tone, text: String| self.out.paint(tone, &text);
        let dead = if counts.dead > 0 { Tone::Bad } else { Tone::Dim };
        let waiting = if counts.pending() > 0 { Tone::Warn } else { Tone::Dim };
        let state = match self.inventory.is_up() {
            true => paint(Tone::Dim, "inventory up".to_owned()),
            false => paint(Tone::Warn, "inventory down: the lane rests".to_owned()),
        };
        [
            paint(Tone::Dim, format!("{:>4}s", elapsed.as_secs())),
            format!("placed {:<4}", self.shop.placed()),
            paint(Tone::Good, format!("sent {:<4}", counts.sent)),
            paint(waiting, format!("pending {:<3}", counts.pending())),
            paint(dead, format!("dead {:<2}", counts.dead)),
            format!("taken in {:<4}", self.inventory.taken_in()),
            paint(Tone::Dim, format!("duplicates {:<2}", self.inventory.duplicates())),
            state,
        ]
        .join("  ")
    }

    fn draw(&self, line: &str) {
        if !self.redraw {
            return say(self.out, line);
        }
        // Without wrapping, a line that is too long for the terminal is cut and not spread.
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
