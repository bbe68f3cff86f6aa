//! Real servers for tests: got, started on free loopback ports, stopped.
//!
//! Only private instances in folders of their own. A server that already runs on the machine is
//! neither used nor touched. A new server is one file here and one line in [`SERVERS`].

mod apt;
mod cache;
mod chromium;
mod command;
mod debian;
mod http;
mod java;
mod kafka;
mod mariadb;
mod mysql;
mod nats;
mod place;
#[allow(unreachable_pub, reason = "tests use this file too")]
mod ports;
mod postgres;
mod python;
mod rabbitmq;
mod recipe;
mod redis;
mod rocketmq;
mod rocketmq_4;
mod run;
pub(crate) mod sweep;
mod template;
mod tools;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::Serialize;

use crate::{interrupt, root, table};
use cache::Cache;
use place::{Place, Reserved};
pub(crate) use run::{Run, guard};
pub(crate) use tools::tools;

/// Every server that the world can have.
const SERVERS: &[&dyn Server] = &[
    &postgres::THIRTEEN,
    &postgres::FIFTEEN,
    &postgres::EIGHTEEN,
    &mysql::MySql,
    &mariadb::TEN_ELEVEN,
    &mariadb::TEN_FIVE,
    &rocketmq::FIVE,
    &rocketmq_4::FOUR,
    &rabbitmq::RabbitMq,
    &kafka::Kafka,
    &nats::Nats,
    &redis::Redis,
    &http::Http,
    &chromium::Chromium,
];

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(180);

/// One kind of server: how it is had, started, and known to be ready.
trait Server: Sync {
    /// The name that tests and people ask for.
    fn name(&self) -> &'static str;

    /// Brings its programs onto this machine, or finds them there.
    fn get(&self, cache: &Cache<'_>) -> Result<Installed>;

    /// Starts one instance in a fresh folder.
    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running>;

    /// Tells whether an instance answers.
    fn ready(&self, place: &Place<'_>) -> bool;

    /// The signal that ends it soon, with nothing left behind outside of its folder.
    fn farewell(&self) -> Signal {
        Signal::TERM
    }
}

/// Programs on this machine.
struct Installed {
    version: String,
    /// The folder that holds `usr/`; `/` for what the machine itself has.
    prefix: PathBuf,
}

/// A process that was started, and what a test needs to know besides its address.
struct Running {
    child: Child,
    details: BTreeMap<&'static str, String>,
}

/// One server as the world file shows it.
#[derive(Serialize)]
struct Entry {
    version: String,
    address: SocketAddr,
    pid: u32,
    folder: PathBuf,
    details: BTreeMap<&'static str, String>,
    #[serde(skip)]
    _ports: Reserved,
}

/// The servers of one run. They end with it.
pub(crate) struct World {
    children: Vec<(&'static dyn Server, Child)>,
    entries: BTreeMap<&'static str, Entry>,
    kept: bool,
}

impl World {
    /// Brings the programs of all servers onto this machine. What cannot be had is told by the
    /// start of its server.
    pub(crate) fn get(run: &Run) {
        let Ok(cache) = Cache::open(run) else { return };
        for server in SERVERS.iter().take_while(|_| !interrupt::asked()) {
            let _ = server.get(&cache);
        }
    }

    /// Starts the named servers, or all. One that cannot be had keeps no other from starting: its
    /// error is returned beside the world.
    pub(crate) fn start(run: &Run, names: &[String]) -> Result<(World, Vec<anyhow::Error>)> {
        let mut world = World { children: Vec::new(), entries: BTreeMap::new(), kept: false };
        let mut errors = Vec::new();
        let cache = Cache::open(run)?;
        let mut installed = Vec::new();
        let missing = |server: &dyn Server| format!("{} cannot be had", server.name());
        for server in choose(names)? {
            match server.get(&cache) {
                Ok(programs) => installed.push((server, programs)),
                Err(error) => errors.push(error.context(missing(server))),
            }
            interrupt::check()?;
        }
        for (server, started) in raise_all(installed, run) {
            match started {
                Ok((entry, child)) => {
                    world.entries.insert(server.name(), entry);
                    world.children.push((server, child));
                }
                Err(error) => errors.push(error.context(missing(server))),
            }
        }
        interrupt::check()?;
        run.write(&world.entries)?;
        Ok((world, errors))
    }

    /// Starts the named servers. One that cannot be had is an error.
    pub(crate) fn start_all(run: &Run, names: &[String]) -> Result<World> {
        let (world, errors) = World::start(run, names)?;
        if !errors.is_empty() {
            let all = errors.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>();
            bail!("{}", all.join("\n"));
        }
        Ok(world)
    }

    /// Leaves the servers running when this value goes.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Prints what stands where.
    pub(crate) fn print(&self) {
        let row = |(name, entry): (&&str, &Entry)| {
            let address = entry.address.to_string();
            let folder = entry.folder.display().to_string();
            [(*name).to_owned(), entry.version.clone(), address, entry.pid.to_string(), folder]
        };
        let rows: Vec<_> = self.entries.iter().map(row).collect();
        table::print(["name", "version", "address", "pid", "folder"], &rows);
    }

    /// Waits until the run is asked to end; fails when a server ends before.
    fn stand(&mut self) -> Result<()> {
        while !interrupt::asked() {
            for (server, child) in &mut self.children {
                let ended = child.try_wait().context("the state of a server is unknown")?;
                if let (Some(status), false) = (ended, interrupt::asked()) {
                    bail!("{} ended by itself: {status}", server.name());
                }
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for (server, child) in &mut self.children {
            command::ask(child, server.farewell());
        }
        self.children.iter_mut().for_each(|(_, child)| command::wait(child));
    }
}

type Started = Result<(Entry, Child)>;

/// Starts servers side by side: each takes seconds, most of them spent waiting.
fn raise_all(
    installed: Vec<(&'static dyn Server, Installed)>,
    run: &Run,
) -> Vec<(&'static dyn Server, Started)> {
    thread::scope(|scope| {
        let raise =
            |(server, installed)| (server, scope.spawn(move || raise(server, &installed, run)));
        let begun: Vec<_> = installed.into_iter().map(raise).collect();
        let broken = |_| bail!("it panicked");
        begun.into_iter().map(|(server, end)| (server, end.join().unwrap_or_else(broken))).collect()
    })
}

/// Starts one server. A port that someone else took meanwhile costs another try.
fn raise(server: &dyn Server, installed: &Installed, run: &Run) -> Started {
    let mut tries = 3;
    loop {
        match start(server, installed, run) {
            Ok(started) => return Ok(started),
            Err(error) if tries == 1 || interrupt::asked() => return Err(error),
            Err(_) => tries -= 1,
        }
    }
}

fn start(server: &dyn Server, installed: &Installed, run: &Run) -> Started {
    let place = Place::new(run, server.name())?;
    let Running { mut child, details } = server.start(installed, &place)?;
    let began = Instant::now();
    while !server.ready(&place) {
        let ended = child.try_wait().context("the state of a server is unknown")?;
        let late = began.elapsed() > PATIENCE;
        if ended.is_some() || late || interrupt::asked() {
            command::ask(&mut child, Signal::KILL);
            command::wait(&mut child);
            let why = ended.map_or("it does not answer".into(), |status| status.to_string());
            bail!("{why}\n{}", place.last_words());
        }
        sleep(Duration::from_millis(20));
    }
    let entry = Entry {
        version: installed.version.clone(),
        address: place.address,
        pid: child.id(),
        folder: place.folder,
        details,
        _ports: place.ports,
    };
    Ok((entry, child))
}

fn choose(names: &[String]) -> Result<Vec<&'static dyn Server>> {
    if names.is_empty() {
        return Ok(SERVERS.to_vec());
    }
    let find = |name: &String| {
        let known = SERVERS.iter().map(|server| server.name()).collect::<Vec<_>>().join(", ");
        let found = SERVERS.iter().find(|server| server.name() == name).copied();
        found.with_context(|| format!("no server is called {name}; there are {known}"))
    };
    names.iter().map(find).collect()
}

#[derive(clap::Args)]
pub(crate) struct UpArgs {
    /// Servers to start; all of them when none is named
    names: Vec<String>,
    /// Prints the names and ends
    #[arg(long)]
    list: bool,
}

pub(crate) fn up(args: &UpArgs) -> Result<ExitCode> {
    if args.list {
        SERVERS.iter().for_each(|server| println!("{}", server.name()));
        return Ok(ExitCode::SUCCESS);
    }
    choose(&args.names)?;
    let run = Run::open(&root())?;
    interrupt::listen(run.folder())?;
    let (mut world, errors) = match World::start(&run, &args.names) {
        Err(_) if interrupt::asked() => return Ok(ExitCode::SUCCESS),
        started => started?,
    };
    for error in &errors {
        eprintln!("{error:#}");
    }
    if !errors.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    world.print();
    println!("export POSTBOX_WORLD={}", run.file().display());
    println!("Ctrl-C stops them.");
    world.stand()?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn down() -> Result<ExitCode> {
    let stopped = run::clear(&root())?;
    println!("{stopped} stopped");
    Ok(ExitCode::SUCCESS)
}
