//! The relays of a run, as real processes, and what befalls them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use store::Strategy;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::Plan;
use super::destination::Destination;
use super::home::Home;
use super::producer::Demand;
use crate::line::Line;
use crate::process::{Process, Signal};
use crate::raw;

const PATIENCE: Duration = Duration::from_secs(60);

/// How long a claim lasts where relays are killed and stopped: longer than a turn takes also on a
/// machine that has much else to do, or each takes over from the others before they are done.
const LEASE: Duration = Duration::from_secs(4);

/// How many warnings and errors of relays are shown.
const WARNED: usize = 20;

/// What befell the relays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toll {
    /// How many were killed.
    pub killed: usize,
    /// How many were stopped beyond their lease, and woken.
    pub stopped: usize,
    /// How many were cut off from the database beyond their lease, and then heard.
    pub cut_off: usize,
    /// How many were asked to end, and replaced.
    pub replaced: usize,
    /// How many settlements came too late, as far as relays lived to tell.
    pub stale: u64,
}

/// What befalls a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Kill,
    Stop,
    CutOff,
}

struct Relay {
    process: Process,
    /// `None` where a database has no server.
    line: Option<Line>,
}

pub(super) struct Fleet<'a> {
    home: &'a dyn Home,
    destination: Arc<Destination>,
    folder: TempDir,
    chance: Rng,
    calm: bool,
    strategy: Strategy,
    started: usize,
    relays: Vec<Relay>,
    pub(super) toll: Toll,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(
        home: &'a dyn Home,
        destination: Arc<Destination>,
        chance: Rng,
        plan: &Plan,
    ) -> Result<Fleet<'a>> {
        let (folder, toll, relays) = (tempfile::tempdir()?, Toll::default(), Vec::new());
        let (calm, strategy, started) = (plan.calm, plan.strategy, 0);
        Ok(Fleet { home, destination, folder, chance, calm, strategy, started, relays, toll })
    }

    /// Starts one relay.
    pub(super) async fn start(&mut self) -> Result<()> {
        self.started += 1;
        let name = format!("r{}", self.started);
        let mut url = self.home.account(&name).await?;
        let mut line = None;
        if let Some(server) = self.home.address() {
            let opened = Line::open(server).await?;
            url = url.replace(&server.to_string(), &opened.address().to_string());
            line = Some(opened);
        }
        let config = config(&url, &self.destination.url(&name), self.calm, self.strategy)?;
        let file = format!("{name}.toml");
        std::fs::write(self.folder.path().join(&file), config)?;
        let process = Process::start(self.folder.path(), &name, &["run", "-c", &file])?;
        self.relays.push(Relay { process, line });
        Ok(())
    }

    /// Lets happen what happens, round by round until everything is put. Whoever was struck last
    /// works again then.
    pub(super) async fn weather(&mut self, demand: &Demand, put: &CancellationToken) -> Result<()> {
        for relay in &mut self.relays {
            relay.process.says("lane ", PATIENCE).await?;
        }
        while !put.is_cancelled() || demand.over.load(Ordering::SeqCst) < demand.rounds {
            match self.calm {
                true => self.replace().await?,
                false => self.strike().await?,
            }
            demand.over.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(self.chance.u64(200..1500))).await;
        }
        Ok(())
    }

    /// Ends one relay as it should end, and starts another.
    async fn replace(&mut self) -> Result<()> {
        let relay = self.relays.remove(0);
        self.retire(relay).await?;
        self.toll.replaced += 1;
        self.start().await
    }

    /// Strikes, and starts anew: kills a quarter of the relays, stops another quarter beyond its
    /// lease, and cuts one off. Few relays are struck one way at a time, so that one works on.
    async fn strike(&mut self) -> Result<()> {
        self.chance.shuffle(&mut self.relays);
        let part = (self.relays.len() / 4).max(1);
        let all = [(part, Blow::Kill), (part, Blow::Stop), (1, Blow::CutOff)];
        let (few, networked) = (self.relays.len() < 4, self.home.address().is_some());
        let turn = (self.toll.killed + self.toll.stopped) % 2;
        let chosen = all.iter().enumerate().filter(|(at, (_, blow))| match few {
            true => *at == turn,
            false => networked || *blow != Blow::CutOff,
        });
        let blows: Vec<Blow> =
            chosen.flat_map(|(_, (count, blow))| std::iter::repeat_n(*blow, *count)).collect();
        for (at, blow) in blows.iter().enumerate() {
            self.wait(20).await;
            self.land(at, *blow).await?;
        }
        self.wait_lease().await;
        for (at, blow) in blows.iter().enumerate() {
            self.lift(at, *blow).await?;
        }
        Ok(())
    }

    async fn land(&mut self, at: usize, blow: Blow) -> Result<()> {
        self.alive(at)?;
        let relay = &mut self.relays[at];
        match blow {
            Blow::Kill => {
                self.toll.stale += stale(&relay.process).await.unwrap_or_default();
                relay.process.signal(Signal::KILL)?;
                relay.process.ends(PATIENCE).await?;
                self.toll.killed += 1;
            }
            Blow::Stop => {
                relay.process.signal(Signal::STOP)?;
                self.toll.stopped += 1;
            }
            Blow::CutOff => {
                relay.line.as_ref().context("a line to cut")?.hold(true);
                self.toll.cut_off += 1;
            }
        }
        Ok(())
    }

    /// Ends a blow. In place of a relay that was killed comes another.
    async fn lift(&mut self, at: usize, blow: Blow) -> Result<()> {
        match blow {
            Blow::Kill => {
                self.start().await?;
                drop(self.relays.swap_remove(at));
            }
            Blow::Stop => self.relays[at].process.signal(Signal::CONT)?,
            Blow::CutOff => {
                self.relays[at].line.as_ref().context("a line that was cut")?.hold(false);
            }
        }
        Ok(())
    }

    /// Passes a little time, so that what follows hits anything.
    async fn wait(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_micros(self.chance.u64(..most * 1000))).await;
    }

    /// Passes as much time as others need to take over.
    async fn wait_lease(&mut self) {
        let more = LEASE.mul_f64(0.25 + self.chance.f64());
        tokio::time::sleep(LEASE + more).await;
    }

    fn alive(&mut self, at: usize) -> Result<()> {
        let relay = &mut self.relays[at].process;
        ensure!(!relay.has_ended()?, "a relay ended by itself:\n{}", relay.log());
        Ok(())
    }

    /// Ends every relay as it should end.
    pub(super) async fn end(&mut self) -> Result<()> {
        while let Some(relay) = self.relays.pop() {
            self.retire(relay).await?;
        }
        Ok(())
    }

    /// Returns the newest warnings and errors of all relays.
    pub(super) fn warned(&self) -> Vec<String> {
        let logs =
            (1..=self.started).map(|number| self.folder.path().join(format!("r{number}.log")));
        let logs: Vec<String> = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect();
        let lines = logs.iter().flat_map(|log| log.lines());
        let warning = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
        let mut warned: Vec<String> = lines.filter(warning).map(str::to_owned).collect();
        warned.sort();
        warned.split_off(warned.len().saturating_sub(WARNED))
    }

    async fn retire(&mut self, relay: Relay) -> Result<()> {
        let Relay { mut process, line: _line } = relay;
        process.says("lane ", PATIENCE).await?;
        self.toll.stale += stale(&process).await.unwrap_or_default();
        process.signal(Signal::TERM)?;
        let ended = process.ends(PATIENCE).await?;
        ensure!(ended.success(), "a relay ended badly ({ended}):\n{}", process.log());
        Ok(())
    }
}

/// Asks a relay how many of its settlements came too late.
async fn stale(relay: &Process) -> Result<u64> {
    let log = relay.log();
    let (_, address) = log.rsplit_once("console at http://").context("a console")?;
    let (address, _) = address.split_once('/').context("a console")?;
    let address: SocketAddr = address.parse()?;
    let asked = tokio::task::spawn_blocking(move || raw::get(address, "/metrics", "")).await??;
    let lines = asked.body.lines().filter(|line| line.starts_with("postbox_stale_total"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

fn config(url: &str, destination: &str, calm: bool, strategy: Strategy) -> Result<String> {
    let (lease, timeout) = if calm { ("30s", "10s") } else { ("4s", "1900ms") };
    let mut text = String::new();
    writeln!(text, "[outbox.orders]\nurl = \"{url}\"\nlease = \"{lease}\"\nidle = \"200ms\"")?;
    writeln!(text, "batch = 100\nstrategy = \"{}\"", strategy.name())?;
    if strategy.competes() {
        writeln!(text, "order = \"pass\"")?;
    }
    writeln!(text, "[sink.stock]\nkind = \"http\"\nurl = \"{destination}\"")?;
    writeln!(text, "timeout = \"{timeout}\"\nallow_private = true")?;
    writeln!(text, "[[route]]\ntopic = \"order.*\"\nsink = \"stock\"")?;
    writeln!(text, "[policy]\nrest = \"200ms\"\nbackoff = \"100ms\"\nbackoff_cap = \"1s\"")?;
    writeln!(text, "[admin]\nlisten = \"127.0.0.1:0\"\nsample = \"1m\"")?;
    Ok(text)
}
