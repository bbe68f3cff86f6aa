//! `postbox config check|print`.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::args::Global;
use crate::config::{self, Problem};
use crate::failure::End;
use crate::out::Out;
use crate::table::Tone;

/// Check or print the config.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the config file, and name every mistake with its line.
    #[command(after_help = "Exit codes: 0 the config is right, 2 it is not.")]
    Check,
    /// Print what is in force: the defaults, the file and the environment together, secrets masked.
    Print {
        /// Print the defaults instead: a commented file with every key.
        #[arg(long)]
        default: bool,
    },
}

impl ConfigCommand {
    /// Checks or prints.
    pub(crate) fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        match self {
            ConfigCommand::Check => check(global, out),
            ConfigCommand::Print { default: true } => {
                if out.json {
                    let table: toml::Table = toml::from_str(config::DEFAULT)?;
                    out.value(&serde_json::to_value(table)?)?;
                } else {
                    out.line(config::DEFAULT.trim_end())?;
                }
                Ok(End::Fine)
            }
            ConfigCommand::Print { default: false } => {
                let document = config::document(&config::load(&global.config)?);
                if out.json {
                    out.value(&serde_json::to_value(document)?)?;
                } else {
                    out.line(toml::to_string(&document)?.trim_end())?;
                }
                Ok(End::Fine)
            }
        }
    }
}

fn check(global: &Global, out: Out) -> anyhow::Result<End> {
    match config::load(&global.config) {
        Ok(config) if out.json => out.value(&json!({
            "ok": true,
            "outboxes": config.outboxes.len(),
            "sinks": config.sinks.len(),
            "routes": config.routes.len(),
            "problems": [],
        }))?,
        Ok(config) => {
            let counts = [
                count(config.outboxes.len(), "outbox", "outboxes"),
                count(config.sinks.len(), "sink", "sinks"),
                count(config.routes.len(), "route", "routes"),
            ];
            let text = format!("{}: {}", global.config.display(), counts.join(", "));
            out.line(format!("{} {text}", out.paint(Tone::Good, "✓")))?;
        }
        Err(problems) if out.json => {
            let list: Vec<_> = problems.0.iter().map(view).collect();
            out.value(&json!({ "ok": false, "problems": list }))?;
            return Ok(End::Misused);
        }
        Err(problems) => return Err(problems.into()),
    }
    Ok(End::Fine)
}

fn view(problem: &Problem) -> Value {
    json!({ "place": problem.place.to_string(), "text": problem.text })
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
