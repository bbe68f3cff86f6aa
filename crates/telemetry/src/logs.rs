//! The log's form: lines for people, or JSON for machines, on standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, registry};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Reads a filter without starting anything. Says what is wrong with one that cannot be read.
pub fn check_filter(filter: &str) -> Result<(), String> {
    read(filter).map(drop)
}

fn read(filter: &str) -> Result<Targets, String> {
    let example = "write for example \"info\" or \"warn,postbox_relay=debug\"";
    let read: Result<Targets, _> = filter.parse();
    read.map_err(|error| format!("{filter:?} cannot be read: {error}; {example}"))
}

/// Starts logging. A second call changes nothing. A filter that cannot be read is returned as text.
pub fn logs(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = read(filter)?;
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_writer(stderr).with_target(false).with_ansi(colours);
    let _ = match format {
        LogFormat::Human => registry().with(lines.compact().with_filter(filter)).try_init(),
        LogFormat::Json => {
            registry().with(lines.json().flatten_event(true).with_filter(filter)).try_init()
        }
    };
    Ok(())
}
