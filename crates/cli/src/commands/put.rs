//! `postbox put`: puts one event down, in a transaction of its own.

use std::io::{IsTerminal, Read};

use anyhow::Context;
use clap::Args;
use event::{Event, EventId, Limits, Millis, Payload, Status};
use serde_json::json;

use super::listing;
use crate::args::{Global, Which};
use crate::config::duration;
use crate::failure::{End, Usage};
use crate::out::Out;
use crate::outboxes::{self, Opened};
use crate::table::Tone;

/// Put an event down.
///
/// It is for trying things out and for repairs: a service puts its events down in its own
/// transaction, with a plain INSERT or the library.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  postbox put order.paid OrderPaid '{\"total\": 42}' --key 123
  postbox put order.paid OrderPaid @paid.json --header schema_version=2
  generate | postbox put report.made ReportMade --due 5m

Exit codes: 0 put down, 1 an event of that id is there already, or the outbox did not answer.")]
pub(crate) struct Put {
    /// Where it goes: routes match on it.
    topic: String,
    /// What happened.
    #[arg(value_name = "TYPE")]
    kind: String,
    /// What it carries: text, @FILE, or - (or nothing) for standard input.
    payload: Option<String>,
    /// It carries nothing.
    #[arg(long)]
    empty: bool,
    /// The business key: events of one key stay in order.
    #[arg(short, long)]
    key: Option<String>,
    /// A named value beside the payload. May be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// When it is due: after a while (5m), or at a moment (2030-01-01T00:00:00Z).
    #[arg(long, value_name = "WHEN", value_parser = due)]
    due: Option<Due>,
    /// Its identity: a UUID that no event has yet. A new one is made if it is left out.
    #[arg(long)]
    id: Option<EventId>,
    #[command(flatten)]
    which: Which,
}

/// When an event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    After(std::time::Duration),
    At(Millis),
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

fn due(text: &str) -> Result<Due, String> {
    if let Ok(after) = duration::parse(text) {
        return Ok(Due::After(after));
    }
    let moment: Result<jiff::Timestamp, _> = text.parse();
    let wrong = |_| "write a duration like 5m, or a moment like 2030-01-01T00:00:00Z".to_owned();
    moment.map(|moment| Due::At(Millis(moment.as_millisecond()))).map_err(wrong)
}

impl Put {
    /// Puts the event down and says its id.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let mut event = Event::new(&self.topic, &self.kind, "");
        event.id = self.id.unwrap_or(event.id);
        event.key.clone_from(&self.key);
        event.headers.0.extend(self.headers.iter().cloned());
        event.payload = self.payload(out)?;
        event.check(&Limits::default()).map_err(|invalid| Usage(invalid.to_string()))?;
        let due = self.due.map(|due| match due {
            Due::After(after) => Millis::now() + after,
            Due::At(moment) => moment,
        });
        let opened = outboxes::open_one(global, &self.which).await?;
        let put = self.put(&opened, &event, due).await;
        opened.outbox.close().await;
        if let Some(status) = put? {
            let text = "nothing was put down. Leave --id out, or requeue it if it is dead";
            let id = event.id;
            out.aside(Tone::Bad, format!("postbox: event {id} is there already, {status}: {text}"));
            return Ok(End::Wrong);
        }
        if out.json {
            let (outbox, due) = (&opened.name, due.map(|due| due.to_string()));
            out.value(&json!({ "outbox": outbox, "id": event.id, "due": due }))?;
        } else {
            out.line(event.id.to_string())?;
            if let Some(due) = due {
                out.aside(Tone::Dim, format!("due at {due}"));
            }
        }
        Ok(End::Fine)
    }

    /// Puts the event down, unless one of its id is there already, whose status is returned.
    async fn put(
        &self,
        opened: &Opened,
        event: &Event,
        due: Option<Millis>,
    ) -> anyhow::Result<Option<Status>> {
        if self.id.is_some()
            && let Some(listed) = listing::of_id(opened, event.id, false).await?.first()
        {
            return Ok(Some(listed.status));
        }
        opened.outbox.put(std::slice::from_ref(event), due).await?;
        Ok(None)
    }

    fn payload(&self, out: Out) -> anyhow::Result<Payload> {
        let bytes = match self.payload.as_deref() {
            None | Some("") if self.empty => Vec::new(),
            Some(_) if self.empty => {
                let text = "--empty says that there is no payload, and there is one; leave one out";
                return Err(Usage(text.to_owned()).into());
            }
            None | Some("-") => read_standard_input(out)?,
            Some(text) => match text.strip_prefix('@') {
                Some(file) => std::fs::read(file).with_context(|| format!("cannot read {file}"))?,
                None => text.as_bytes().to_vec(),
            },
        };
        if bytes.is_empty() && !self.empty {
            let text = "the payload is empty; say --empty if that is meant";
            return Err(Usage(text.to_owned()).into());
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Payload::Text(text),
            Err(error) => Payload::Bytes(error.into_bytes().into()),
        })
    }
}

fn read_standard_input(out: Out) -> std::io::Result<Vec<u8>> {
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        out.aside(Tone::Dim, "Type the payload; Ctrl-D on a line of its own ends it.");
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_is_a_while_or_a_moment() {
        assert_eq!(due("5m"), Ok(Due::After(std::time::Duration::from_secs(300))));
        assert_eq!(due("1970-01-01T00:00:01Z"), Ok(Due::At(Millis(1000))));
        assert!(due("tomorrow").unwrap_err().contains("5m"));
    }

    #[test]
    fn a_header_has_a_name_and_may_hold_an_equals_sign() {
        assert_eq!(header("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(header("=x").is_err() && header("x").is_err());
    }
}
