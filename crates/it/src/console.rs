//! A console as a person finds it: the real binary on a free port, relaying a site to a destination
//! that refuses some events until it is told to relent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::http::StatusCode;
use event::{Event, Filter, Listed, Page};

use crate::process::Process;
use crate::receiver::{Habit, Receiver};
use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(30);

/// How often an event is tried before it is dead.
pub const ATTEMPTS: u32 = 3;

/// A running console, its outbox and its destination.
pub struct Console {
    /// Where it listens.
    pub address: SocketAddr,
    /// The outbox.
    pub site: Site,
    relents: Arc<AtomicBool>,
    _receiver: Receiver,
    _relay: Process,
}

impl Console {
    /// Starts one without a token. Events are rejected when their key starts with `bad`, and put
    /// off each time when it starts with `busy`.
    pub async fn start() -> Result<Console> {
        Console::with_token("").await
    }

    /// Starts one that a token opens.
    pub async fn with_token(token: &str) -> Result<Console> {
        let relents = Arc::new(AtomicBool::new(false));
        let receiver = Receiver::start(moody(relents.clone())).await?;
        let site = Site::new().await?;
        let (address, relay) = serve(&site, &receiver.url("orders"), token).await?;
        Ok(Console { address, site, relents, _receiver: receiver, _relay: relay })
    }

    /// Returns the address of a page.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Lets the destination accept everything from now on.
    pub fn relent(&self) {
        self.relents.store(true, Ordering::SeqCst);
    }

    /// Puts events down, due at once.
    pub async fn put(&self, events: &[Event]) -> Result<()> {
        Ok(self.site.outbox.put(events, None).await?)
    }

    /// Waits until every event is sent or dead, `dead` of them dead.
    pub async fn settled(&self, dead: u64) -> Result<()> {
        let what = format!("settled with {dead} dead");
        let done =
            self.site.until(&what, PATIENCE, |counts| counts.pending() == 0 && counts.dead == dead);
        done.await.map(drop)
    }

    /// Looks up an event in the database.
    pub async fn row(&self, event: &Event) -> Result<Listed> {
        let filter = Filter { id: Some(event.id), ..Filter::default() };
        let page = Page { limit: 1, after: None, payloads: false };
        let found = self.site.outbox.catalog().find(&filter, &page).await?;
        found.events.into_iter().next().context("the event is in no table")
    }
}

/// Starts the binary on a site and returns where its console listens.
pub async fn serve(site: &Site, destination: &str, token: &str) -> Result<(SocketAddr, Process)> {
    let file = site.file();
    let folder = file.parent().context("the database lies in a folder")?;
    let config = folder.join("console.toml");
    let text = format!(
        "[outbox.orders]\nurl = \"sqlite:{}\"\nidle = \"100ms\"\n\
         [sink.stock]\nkind = \"http\"\nurl = \"{destination}\"\nallow_private = true\n\
         [[route]]\ntopic = \"order.*\"\nsink = \"stock\"\n\
         [policy]\nattempts = {ATTEMPTS}\nbackoff = \"20ms\"\nbackoff_cap = \"40ms\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"{token}\"\n",
        file.display()
    );
    std::fs::write(&config, text)?;
    let config = config.to_str().context("a temporary folder has a plain name")?;
    let mut relay = Process::start(folder, "console", &["run", "-c", config])?;
    let address = relay.console(PATIENCE).await?;
    Ok((address, relay))
}

fn moody(relents: Arc<AtomicBool>) -> Habit {
    Arc::new(move |arrival| {
        let key = arrival.key.unwrap_or_default();
        let answer = match relents.load(Ordering::SeqCst) {
            false if key.starts_with("bad") => StatusCode::UNPROCESSABLE_ENTITY,
            false if key.starts_with("busy") => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::NO_CONTENT,
        };
        Box::pin(async move { answer })
    })
}
