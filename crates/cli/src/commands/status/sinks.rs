//! The destinations in `postbox status`: what a receipt is worth, and how full they are.

use event::{Finding, Gauge, Grade, Inspection, Refusal};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::config::{self, Config};
use crate::escape::escape;
use crate::out::Out;
use crate::table::{Align, Cell, Table, Tone};
use crate::wire;

/// A destination, and what it said.
pub(super) struct Asked {
    name: String,
    kind: &'static str,
    said: Result<Inspection, Refusal>,
}

/// Asks every destination that a route of these outboxes leads to, all at once.
pub(super) async fn ask(config: &Config, outbox: Option<&str>) -> Vec<Asked> {
    let leads = |sink: &&config::Sink| {
        let of = |name: &Option<String>| match (name, outbox) {
            (Some(name), Some(outbox)) => name == outbox,
            _ => true,
        };
        config.routes.iter().any(|route| route.sink == sink.name && of(&route.outbox))
    };
    let ask = async |configured: &config::Sink| {
        let said = match wire::lone(config, configured, outbox) {
            Ok(sink) => {
                let said = telemetry::inspect(&*sink).await;
                sink.close().await;
                said
            }
            Err(cause) => Err(Refusal::Down(cause)),
        };
        Asked { name: configured.name.clone(), kind: configured.kind.name(), said }
    };
    join_all(config.sinks.iter().filter(leads).map(ask)).await
}

/// Says them as a table; those that did not answer, aside.
pub(super) fn say(all: &[Asked], after: bool, out: Out) -> std::io::Result<()> {
    let mut table = Table::new(&[
        ("SINK", Align::Left),
        ("KIND", Align::Left),
        ("DURABILITY", Align::Left),
        ("LAG", Align::Right),
        ("RETRY", Align::Right),
        ("DEAD", Align::Right),
        ("DISK", Align::Right),
    ]);
    let mut answered = false;
    for asked in all {
        match &asked.said {
            Ok(seen) => {
                table.row(row(asked, seen));
                answered = true;
                for (tone, text) in wrong(&asked.name, &seen.findings) {
                    out.aside(tone, text);
                }
            }
            Err(refusal) => {
                let why = refusal.cause().map(ToString::to_string).unwrap_or_default();
                out.aside(Tone::Warn, format!("! {}: {why}", asked.name));
            }
        }
    }
    if answered && after {
        out.line("")?;
    }
    if answered { out.table(&table) } else { Ok(()) }
}

/// Says what does not work; what only wants a look is counted.
fn wrong(name: &str, findings: &[Finding]) -> Vec<(Tone, String)> {
    let bad = |Finding { what, detail, .. }: &Finding| {
        (Tone::Bad, format!("✗ {name}: {}: {}", escape(what), escape(detail)))
    };
    let of = |grade| findings.iter().filter(move |finding| finding.grade == grade);
    let mut all: Vec<(Tone, String)> = of(Grade::Bad).map(bad).collect();
    let looks = of(Grade::Warn).count();
    if looks > 0 {
        let text = format!("! {name}: {looks} to look at; `postbox doctor` says what");
        all.push((Tone::Warn, text));
    }
    all
}

fn row(asked: &Asked, seen: &Inspection) -> Vec<Cell> {
    let of = |gauge, tone| match Inspection::total(&seen.levels, gauge) {
        None => Cell::new("-").tone(Tone::Dim),
        Some(value) if gauge == Gauge::Disk => {
            let tone = if value > 0.8 { Tone::Bad } else { Tone::Plain };
            Cell::new(format!("{:.0}%", value * 100.0)).tone(tone)
        }
        Some(value) => {
            let tone = if value == 0.0 { Tone::Dim } else { tone };
            Cell::new(format!("{value:.0}")).tone(tone)
        }
    };
    vec![
        Cell::new(&asked.name),
        Cell::new(asked.kind),
        Cell::new(seen.durability.as_str()),
        of(Gauge::Lag, Tone::Plain),
        of(Gauge::Retry, Tone::Warn),
        of(Gauge::Dead, Tone::Bad),
        of(Gauge::Disk, Tone::Plain),
    ]
}

/// Returns a destination as JSON, with all of its levels.
pub(super) fn view(asked: &Asked) -> Value {
    let seen = asked.said.as_ref().ok();
    json!({
        "name": asked.name,
        "kind": asked.kind,
        "durability": seen.map(|seen| seen.durability),
        "levels": seen.map(|seen| &seen.levels),
        "findings": seen.map(|seen| findings(&seen.findings)),
        "problem": asked.said.as_ref().err().map(Refusal::cause),
    })
}

fn findings(all: &[Finding]) -> Vec<Value> {
    all.iter().filter(|finding| finding.grade > Grade::Good).map(found).collect()
}

fn found(Finding { grade, what, detail }: &Finding) -> Value {
    json!({ "grade": grade.as_str(), "what": what, "detail": detail })
}

#[cfg(test)]
mod tests {
    use event::{Cause, Code, Durability, Level};

    use super::*;

    fn asked(said: Result<Inspection, Refusal>) -> Asked {
        Asked { name: "there".to_owned(), kind: "nats", said }
    }

    #[test]
    fn what_is_told_adds_up_and_what_is_not_told_is_a_dash() {
        let level = |gauge, value| Level { gauge, topic: "t".into(), group: "g".into(), value };
        let levels = vec![
            level(Gauge::Lag, 3.0),
            level(Gauge::Lag, 4.0),
            level(Gauge::Dead, 0.0),
            level(Gauge::Disk, 0.614),
        ];
        let seen = Inspection { levels, ..Inspection::of(Durability::Durable) };
        let mut table = Table::new(&[("", Align::Left); 7]);
        table.row(row(&asked(Ok(seen.clone())), &seen));
        let said: Vec<String> =
            table.lines(false)[1].split_whitespace().map(str::to_owned).collect();
        assert_eq!(said, ["there", "nats", "durable", "7", "-", "0", "61%"]);
        let view = view(&asked(Ok(seen)));
        assert_eq!((&view["durability"], &view["problem"]), (&json!("durable"), &Value::Null));
        assert_eq!(
            view["levels"][3],
            json!({"gauge": "disk", "topic": "t", "group": "g", "value": 0.614})
        );
    }

    #[test]
    fn what_does_not_work_is_told_in_full_and_the_rest_counted() {
        let mut seen = Inspection::of(Durability::Replicated);
        for (grade, what) in [
            (Grade::Warn, "flush"),
            (Grade::Bad, "copies"),
            (Grade::Good, "replication"),
            (Grade::Warn, "timeout"),
        ] {
            seen.findings.push(Finding::new(grade, what, "as the test says"));
        }
        let said = wrong("there", &seen.findings);
        let expected = [
            (Tone::Bad, "✗ there: copies: as the test says"),
            (Tone::Warn, "! there: 2 to look at; `postbox doctor` says what"),
        ];
        assert_eq!(said, expected.map(|(tone, text)| (tone, text.to_owned())));
        let view = view(&asked(Ok(seen)));
        let told = view["findings"].as_array().unwrap();
        assert_eq!(told.len(), 3, "{view}");
        let finding = json!({"grade": "bad", "what": "copies", "detail": "as the test says"});
        assert_eq!(told[1], finding);
        assert_eq!(wrong("there", &[]), []);
    }

    #[test]
    fn one_that_does_not_answer_is_told_as_a_problem() {
        let down = Refusal::Down(Cause::new(Code::SinkDown, "as the test says"));
        let view = view(&asked(Err(down)));
        assert_eq!(view["durability"], Value::Null);
        assert_eq!(view["problem"]["code"], "sink-down");
    }
}
