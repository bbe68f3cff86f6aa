//! `postbox run`: relays, until it is told to stop.

use clap::Args;
use telemetry::LogFormat;

use crate::args::Global;
use crate::config::{self, Config};
use crate::failure::{End, Usage};
use crate::out::Out;
use crate::relaying::Relaying;
use crate::signals::Stop;
use crate::table::Tone;
use crate::wire;

/// Relay: claim what is due, publish it, settle it. Until told to stop.
#[derive(Args, Debug)]
#[command(after_help = "\
SIGINT and SIGTERM stop it gently: what is in hand is finished, leases are handed over. A second
signal ends it at once; nothing is lost then either, the leases run out.

Example:
  postbox run -c postbox.toml

Exit codes: 0 stopped as told, 1 something ended it, 2 the config is wrong.")]
pub(crate) struct Run {}

impl Run {
    /// Relays.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let config = config::load(&global.config)?;
        let json = config.log.json || out.json;
        let format = if json { LogFormat::Json } else { LogFormat::Human };
        telemetry::logs(format, &config.log.filter).map_err(Usage)?;
        let stop = Stop::listen()?;
        let relay = async {
            let opened = stop.gently.run_until_cancelled(Relaying::open(config.clone())).await;
            let Some(relaying) = opened.transpose()? else { return Ok(End::Fine) };
            greet(&config, &relaying);
            relaying.run(&stop.gently).await?;
            tracing::info!("stopped");
            Ok(End::Fine)
        };
        tokio::select! {
            ended = relay => ended,
            () = stop.now.cancelled() => {
                out.aside(Tone::Warn, "postbox: ended at once; leases run out by themselves");
                Ok(End::Wrong)
            }
        }
    }
}

fn greet(config: &Config, relaying: &Relaying) {
    for outbox in &config.outboxes {
        let plan = wire::plan(config, &outbox.name);
        let sinks: Vec<&str> = plan.iter().filter_map(|p| p.sink).map(|s| &*s.name).collect();
        let (name, url, sinks) = (&outbox.name, &outbox.url, sinks.join(", "));
        tracing::info!("outbox {name} ({url}) goes to {sinks}");
    }
    if let Some(address) = relaying.console() {
        tracing::info!("console at http://{address}/");
    }
}
