//! The demo: a shop, a relay and an inventory in one process, in a folder that is removed.
//!
//! The shop and the inventory stand for two services of yours. Each has its own database; they
//! share nothing but the events that the relay carries between them.

mod inventory;
mod live;
mod shop;
mod summary;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::Secret;
use telemetry::LogFormat;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config};
use crate::failure::End;
use crate::out::Out;
use crate::outboxes::Opened;
use crate::relaying::Relaying;
use crate::signals::Stop;
use crate::table::Tone;
use inventory::Inventory;
use live::Live;
use shop::Shop;

/// How the demo goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Orders a second.
    pub(crate) rate: u32,
    /// How long it lasts, if not until told to stop.
    pub(crate) lasts: Option<Duration>,
    /// Where the console listens.
    pub(crate) listen: SocketAddr,
    /// Whether to open the console in the browser.
    pub(crate) open: bool,
}

/// Runs the demo until it is told to stop, and removes everything it made.
pub(crate) async fn run(options: Options, out: Out) -> anyhow::Result<End> {
    telemetry::logs(LogFormat::Human, "error").map_err(anyhow::Error::msg)?;
    let folder = tempfile::Builder::new().prefix("postbox-demo-").tempdir()?;
    let stop = Stop::listen_at_terminal()?;
    let shown = tokio::select! {
        shown = Box::pin(show(options, folder.path(), &stop.gently, out)) => shown,
        () = stop.now.cancelled() => Err(anyhow::anyhow!("ended at once")),
    };
    folder.close().context("cannot remove the demo's folder")?;
    shown
}

async fn show(
    options: Options,
    folder: &Path,
    stop: &CancellationToken,
    out: Out,
) -> anyhow::Result<End> {
    let secret = secret();
    let inventory = Inventory::open(&folder.join("inventory.sqlite3"), secret.clone()).await?;
    let shop_file = folder.join("shop.sqlite3");
    postbox::migrate(&format!("sqlite:{}", shop_file.display())).await?;
    let config = config(&shop_file, inventory.address(), &secret, options.listen)?;
    let relaying = match Relaying::open(config).await {
        Ok(relaying) => relaying,
        Err(error) => return Err(unheard(error, options.listen)),
    };
    let outbox = relaying.outbox("shop").context("the config names the shop")?;
    let shop = Shop::open(&shop_file, outbox.clone()).await?;
    if let Some(address) = relaying.console() {
        greet(address, options.open, out);
    }

    let (closing, closed) = (stop.child_token(), CancellationToken::new());
    let relay = tokio::spawn({
        let closed = closed.clone();
        async move { Box::pin(relaying.run(&closed)).await }
    });
    let served = tokio::spawn(inventory.clone().serve(closing.clone(), closed.clone()));
    let placing = tokio::spawn(shop.clone().place_orders(options.rate, closing.clone()));
    let live = Live::new(shop.clone(), inventory.clone(), outbox.clone(), out);
    tokio::select! {
        () = live.show() => {}
        () = lasts(options.lasts) => {}
        () = closing.cancelled() => {}
    }
    closing.cancel();
    live.finish();
    placing.await??;
    drain(&outbox).await?;
    let counts = outbox.outbox.catalog().count().await?;
    closed.cancel();
    relay.await??;
    served.await??;
    summary::Summary::of(&shop, &inventory, &counts).await?.say(out)
}

/// Says in the demo's own words why the console cannot listen; other errors stay as they are.
fn unheard(error: anyhow::Error, listen: SocketAddr) -> anyhow::Error {
    match error.downcast::<std::io::Error>() {
        Ok(error) => anyhow::anyhow!(
            "cannot listen on {listen}: {error}; leave --listen out, or take a free port with \
             `--listen 127.0.0.1:0`"
        ),
        Err(other) => other,
    }
}

async fn lasts(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn secret() -> Secret {
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(32).collect();
    Secret::new(format!("whsec_{}", STANDARD.encode(bytes)))
}

/// Writes the config that an operator would write, impatient where a person watches.
fn config(
    shop: &Path,
    inventory: SocketAddr,
    secret: &Secret,
    listen: SocketAddr,
) -> anyhow::Result<Config> {
    let text = format!(
        r#"
[outbox.shop]
url = {shop}
lease = "10s"
idle = "200ms"

[sink.inventory]
kind = "http"
url = "http://{inventory}/events"
timeout = "2s"
secrets = ["{secret}"]
allow_private = true

[[route]]
topic = "order.*"
sink = "inventory"

[policy]
backoff = "400ms"
backoff_cap = "5s"
rest = "500ms"

[admin]
listen = "{listen}"
"#,
        shop = toml::Value::from(format!("sqlite:{}", shop.display())),
        secret = secret.reveal(),
    );
    Ok(config::parse("the demo's config", &text, [])?)
}

fn greet(address: SocketAddr, open: bool, out: Out) {
    let url = format!("http://{address}/");
    live::say(out, &format!("Console  {url}"));
    live::say(out, "A shop places orders; the relay carries them to an inventory. Ctrl-C ends it.");
    if open && let Err(error) = open_browser(&url) {
        out.aside(Tone::Warn, format!("cannot open a browser: {error}"));
    }
}

fn open_browser(url: &str) -> std::io::Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = std::process::Stdio::null;
    let mut command = std::process::Command::new(opener);
    command.arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().map(drop)
}

/// Lets the relay finish: what is due, and what backs off for a moment.
async fn drain(outbox: &Arc<Opened>) -> anyhow::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(15);
    const LOOK: Duration = Duration::from_millis(50);
    let empty = async {
        let catalog = outbox.outbox.catalog();
        while catalog.count().await?.pending() > 0 {
            tokio::time::sleep(LOOK).await;
        }
        Ok::<_, event::StoreError>(())
    };
    match tokio::time::timeout(PATIENCE, empty).await {
        Ok(emptied) => Ok(emptied?),
        // Whatever still waits is counted as pending, which is no broken promise.
        Err(_) => Ok(()),
    }
}
