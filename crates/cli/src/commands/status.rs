//! `postbox status`: how many events are where, and how full the destinations are.

mod sinks;

use clap::Args;
use event::{Counts, StoreError};
use serde_json::{Value, json};

use crate::args::{Global, Which};
use crate::config::duration;
use crate::failure::End;
use crate::out::Out;
use crate::outboxes::{self, Chosen};
use crate::table::{Align, Cell, Table, Tone};

/// Show how many events are where, for each outbox, and how full the destinations are.
#[derive(Args, Debug)]
#[command(after_help = "\
A ~ marks an estimate from above: beyond some hundred thousand rows nobody counts one by one.

Destinations are asked, too: what a receipt of theirs is worth, how many events their consumers have
not taken in (LAG), wait to be handed out again (RETRY) or were given up there (DEAD), and how full
the broker's disk is. A - is what a broker does not tell.

The database knows the events, but not the relay. What a lane does (it runs, rests because its
destination is down, or waits for the database) its relay tells: on the console's overview, at
/api/v1/pulse, and as postbox_lane_up at /metrics.

Exit codes: 0 every outbox answered, 1 one did not. A destination that does not answer is told, and
changes nothing: events wait for it.")]
pub(crate) struct Status {
    #[command(flatten)]
    which: Which,
}

impl Status {
    /// Counts each outbox.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let mut table = Table::new(&[
            ("OUTBOX", Align::Left),
            ("NEW", Align::Right),
            ("DISPATCHING", Align::Right),
            ("RETRY", Align::Right),
            ("DEAD", Align::Right),
            ("SENT", Align::Right),
            ("OLDEST DUE", Align::Right),
        ]);
        let (mut views, mut end, mut answered) = (Vec::new(), End::Fine, false);
        let (outboxes, config) = outboxes::choose_with(global, &self.which)?;
        for chosen in outboxes {
            match count(&chosen).await {
                Ok(counts) => {
                    table.row(row(&chosen.name, &counts));
                    views.push(view(&chosen.name, &counts));
                    answered = true;
                }
                Err(error) => {
                    out.aside(Tone::Bad, format!("✗ {}: {error}", chosen.name));
                    let (name, problem) = (&chosen.name, error.cause());
                    views.push(json!({ "name": name, "counts": null, "problem": problem }));
                    end = End::Wrong;
                }
            }
        }
        let sinks = match &config {
            Some(config) => sinks::ask(config, self.which.outbox.as_deref()).await,
            None => Vec::new(),
        };
        if out.json {
            let sinks: Vec<Value> = sinks.iter().map(sinks::view).collect();
            out.value(&json!({ "outboxes": views, "sinks": sinks }))?;
            return Ok(end);
        }
        if answered {
            out.table(&table)?;
        }
        sinks::say(&sinks, answered, out)?;
        Ok(end)
    }
}

async fn count(chosen: &Chosen) -> Result<Counts, StoreError> {
    let opened = chosen.open_ready().await?;
    let counts = opened.outbox.catalog().count().await;
    opened.outbox.close().await;
    counts
}

fn row(name: &str, counts: &Counts) -> Vec<Cell> {
    let number = |count: u64, tone| {
        let tone = if count == 0 { Tone::Dim } else { tone };
        Cell::new(count.to_string()).tone(tone)
    };
    let about = |count: u64, tone| match counts.exact || count == 0 {
        true => number(count, tone),
        false => Cell::new(format!("~{count}")).tone(tone),
    };
    let oldest = counts.oldest_due.map(|due| duration::short(counts.now.since(due)));
    vec![
        name.into(),
        about(counts.new, Tone::Plain),
        number(counts.dispatching, Tone::Plain),
        about(counts.retry, Tone::Warn),
        about(counts.dead, Tone::Bad),
        number(counts.sent, Tone::Good),
        Cell::new(oldest.unwrap_or_else(|| "-".to_owned())),
    ]
}

fn view(name: &str, counts: &Counts) -> Value {
    json!({
        "name": name,
        "counts": {
            "new": counts.new,
            "dispatching": counts.dispatching,
            "retry": counts.retry,
            "sent": counts.sent,
            "dead": counts.dead,
            "pending": counts.pending(),
            "committed": counts.committed(),
            "exact": counts.exact,
            "oldest_due": counts.oldest_due.map(|due| due.to_string()),
        },
        "problem": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_one_by_one_is_marked() {
        let counts = Counts { new: 7, retry: 3, sent: 9, exact: true, ..Counts::default() };
        let said = |exact| {
            let mut table = Table::new(&[("", Align::Left); 7]);
            table.row(row("orders", &Counts { exact, ..counts }));
            table.lines(false)[1].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(said(true), ["orders", "7", "0", "3", "0", "9", "-"]);
        assert_eq!(said(false), ["orders", "~7", "0", "~3", "0", "9", "-"]);
    }
}
