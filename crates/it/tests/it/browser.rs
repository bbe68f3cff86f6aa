//! The console in a real browser, served by the real binary.

mod dead;
mod event;
mod foreign;
mod hostile;
mod keyboard;
mod look;
mod overview;
mod quiet;
mod search;
mod token;

use ::event::{Event, Millis};
use anyhow::Result;
use it::console::Console;

/// An order that was paid; its key decides whether the destination takes it.
fn paid(key: &str) -> Event {
    let payload = format!(r#"{{"order": "{key}", "total": "42.00", "currency": "EUR"}}"#);
    Event::new("order.paid", "OrderPaid", payload).key(key)
}

/// A console with a little of everything: sent, dead for three causes, and not yet due.
struct Busy {
    console: Console,
    sent: Event,
    dead: Event,
}

impl Busy {
    async fn start() -> Result<Busy> {
        Busy::fill(Console::start().await?).await
    }

    async fn fill(console: Console) -> Result<Busy> {
        let kinds = [("order.placed", "OrderPlaced"), ("order.shipped", "OrderShipped")];
        let mut events: Vec<Event> = (1040..1048).map(|n| paid(&n.to_string())).collect();
        for (n, (topic, kind)) in (1040..1048).zip(kinds.into_iter().cycle()) {
            events.push(Event::new(topic, kind, "{}").key(n.to_string()));
        }
        events.extend((1..6).map(|n| paid(&format!("bad-{n}"))));
        events.extend((1..3).map(|n| paid(&format!("busy-{n}"))));
        events.push(Event::new("mail.wanted", "MailWanted", "{}").key("1041"));
        let (sent, dead) = (events[0].clone(), paid("busy-3").header("schema_version", "2"));
        events.push(dead.clone());
        console.put(&events).await?;
        console.settled(9).await?;
        let due = Some(Millis(Millis::now().0 + 3_600_000));
        console.site.outbox.put(&[paid("1070"), paid("1071")], due).await?;
        Ok(Busy { console, sent, dead })
    }

    /// Names every kind of page, with an address of it.
    fn pages(&self) -> Vec<(&'static str, String)> {
        let page = |name, path: &str| (name, path.to_owned());
        vec![
            page("overview", "/"),
            page("events", "/events"),
            page("search", "/events?topic=order.paid&status=DEAD"),
            page("nothing", "/events?key=nobody"),
            page("event-sent", &format!("/events/{}", self.sent.id)),
            page("event-dead", &format!("/events/{}", self.dead.id)),
            page("dead", "/dead"),
            page("requeue", "/dead/requeue?outbox=orders&all=true"),
            page("codes", "/explain"),
            page("code", "/explain/sink-refused"),
        ]
    }
}
