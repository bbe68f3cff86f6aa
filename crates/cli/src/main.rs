//! The front door: the binary `postbox`. It reads the command line, wires the rooms and ends with
//! the right exit code; it knows nothing that a room knows.

mod args;
mod commands;
mod config;
mod demo;
mod destinations;
mod escape;
mod failure;
mod nearest;
mod out;
mod outboxes;
mod relaying;
mod rows;
mod signals;
mod table;
mod tended;
mod usage;
mod wire;

use std::process::ExitCode;

use args::{Cli, Command, Global};
use clap::Parser;
use failure::End;
use out::Out;

fn main() -> ExitCode {
    let Cli { global, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::exit(&error, Out::new(false)),
    };
    let out = Out::new(global.json);
    // One for all that speaks TLS. It fails only if there is one already, which then is it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(answer(&global, command, out));
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error.into()),
    };
    failure::exit(ended, out)
}

async fn answer(global: &Global, command: Command, out: Out) -> anyhow::Result<End> {
    match command {
        Command::Demo(demo) => Box::pin(demo.answer(out)).await,
        Command::Run(run) => Box::pin(run.answer(global, out)).await,
        Command::Migrate(migrate) => migrate.answer(global, out).await,
        Command::Doctor(doctor) => Box::pin(doctor.answer(global, out)).await,
        Command::Status(status) => Box::pin(status.answer(global, out)).await,
        Command::Events(events) => events.answer(global, out).await,
        Command::Dead(dead) => dead.answer(global, out).await,
        Command::Put(put) => put.answer(global, out).await,
        Command::Explain(explain) => explain.answer(out),
        Command::Config(config) => config.answer(global, out),
        Command::Completions(completions) => completions.answer(),
    }
}
