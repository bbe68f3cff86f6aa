//! `postbox demo`: everything at work, with nothing but this binary.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::config::duration;
use crate::demo;
use crate::failure::{End, Usage};
use crate::out::Out;
use crate::usage::between;

/// See all of it work: a shop, a relay, an inventory and some failures.
///
/// Places orders in SQLite, each with its event in the same transaction, and relays them over HTTP
/// to a small inventory that takes each in once. Some requests fail on purpose. Ctrl-C ends it;
/// everything it made is removed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  postbox demo
  postbox demo --rate 200 --open
  postbox demo --for 10s --json     ends by itself; the last line is a summary

Exit codes: 0 every promise held, 1 one did not.")]
pub(crate) struct Demo {
    /// How many orders are placed a second.
    #[arg(long, default_value_t = 20, value_parser = |text: &str| between(text, 1, 5000))]
    rate: u32,
    /// How long it lasts; until Ctrl-C, if left out.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    lasts: Option<Duration>,
    /// Where the console listens: a loopback address. If left out, a free port of 127.0.0.1, which
    /// the first line names.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", hide_default_value = true)]
    listen: SocketAddr,
    /// Open the console in the browser.
    #[arg(long)]
    open: bool,
}

impl Demo {
    /// Runs it.
    pub(crate) async fn answer(&self, out: Out) -> anyhow::Result<End> {
        if !self.listen.ip().is_loopback() {
            let text = "the demo's console asks for no token, so it listens on loopback only";
            return Err(Usage(text.to_owned()).into());
        }
        let options = demo::Options {
            rate: self.rate,
            lasts: self.lasts,
            listen: self.listen,
            open: self.open,
        };
        demo::run(options, out).await
    }
}
