//! What the real binary costs: memory at full rate, processor time at rest.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use it::process::Process;
use it::site::Site;
use store::Setup;

const PATIENCE: Duration = Duration::from_secs(120);
/// How long the idle relay is watched.
const WATCH: Duration = Duration::from_secs(10);

/// Returns the most bytes of memory that a relay had while it drained an outbox to stdout. It works
/// in a folder.
pub(crate) async fn peak_memory(folder: &Path, url: &str, events: usize) -> Result<f64> {
    let relay = start(folder, url)?;
    let outbox = store::open(&Setup::new(url)).await?;
    let until = Instant::now() + PATIENCE;
    while outbox.catalog().count().await?.sent < events as u64 {
        ensure!(Instant::now() < until, "the relay does not drain:\n{}", relay.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    outbox.close().await;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}

/// Returns which part of a core a relay takes that has nothing to do.
pub(crate) async fn idle_share() -> Result<f64> {
    let site = Site::new().await?;
    let folder = site.file();
    let folder = folder.parent().context("a file is in a folder")?;
    let mut relay = start(folder, &format!("sqlite:{}", site.file().display()))?;
    relay.says("lane runs", PATIENCE).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, start) = (processor_time(relay.id())?, Instant::now());
    tokio::time::sleep(WATCH).await;
    let spent = processor_time(relay.id())?.saturating_sub(before);
    Ok(spent.as_secs_f64() / start.elapsed().as_secs_f64())
}

fn start(folder: &Path, url: &str) -> Result<Process> {
    let config = folder.join("postbox.toml");
    let text = format!(
        "[outbox.orders]\nurl = \"{url}\"\n[sink.out]\nkind = \"stdout\"\n\
         [[route]]\ntopic = \"*\"\nsink = \"out\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    std::fs::write(&config, text)?;
    Process::start(folder, "relay", &["run", "-c", "postbox.toml"])
}

/// Reads the time that a process has spent on the processors. Linux counts it in 1/100 s.
fn processor_time(id: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let (_, after) = stat.rsplit_once(')').context("the name in /proc/ID/stat")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
