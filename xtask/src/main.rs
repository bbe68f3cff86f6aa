//! `cargo xtask`: what a developer and CI run. It never becomes part of the product.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it speaks to a person at a terminal"
)]

mod bench;
mod chaos;
mod interrupt;
mod table;
mod test;
mod world;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// Everything that is done to Postbox besides running it.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Checks everything: all of CI in one command
    Test(test::Args),
    /// Starts real servers on free loopback ports and stops them on Ctrl-C
    Up(world::UpArgs),
    /// Stops servers that `cargo xtask test --keep` left running
    Down,
    /// Measures, and prints each figure with its goal
    Bench(bench::Args),
    /// Kills and stops real relays on real databases, and counts what became of every event
    Chaos(chaos::Args),
    /// Outlives a killed run and clears up after it
    #[command(hide = true)]
    Guard { run: PathBuf },
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Test(args) => test::test(&args),
        Verb::Up(args) => world::up(&args),
        Verb::Down => world::down(),
        Verb::Bench(args) => bench::bench(&args),
        Verb::Chaos(args) => chaos::chaos(&args),
        Verb::Guard { run } => world::guard(&run),
    };
    done.unwrap_or_else(|error| {
        eprintln!("cargo xtask: {error:#}");
        ExitCode::FAILURE
    })
}

/// Returns the folder of the workspace.
fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let xtask = xtask.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    xtask.parent().map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Makes a command of the cargo that runs this program, in the workspace.
fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
