//! `front AT TO`: passes on whatever comes at one address to another, until it is killed.

use std::future::pending;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use it::line::Line;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut address = || -> Result<SocketAddr> { Ok(args.next().context("front AT TO")?.parse()?) };
    let (at, to) = (address()?, address()?);
    let _line = Line::open_at(at, to).await?;
    pending().await
}
