//! The log's form: lines for people, or JSON for machines, on standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, registry};

/// Libraries, and the most that they may say: one logs whole events when a broker refuses them, the
/// other every connection that comes and goes. What matters of it is in the cause; whoever wants
/// more names the library in the filter.
const TALKATIVE: [(&str, LevelFilter); 2] =
    [("lapin", LevelFilter::OFF), ("async_nats", LevelFilter::OFF)];

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
    let read = read.map_err(|error| format!("{filter:?} cannot be read: {error}; {example}"))?;
    let most = read.default_level().unwrap_or(LevelFilter::OFF);
    let unnamed = TALKATIVE.iter().filter(|(library, _)| !filter.contains(*library));
    Ok(unnamed.fold(read, |read, (library, may)| read.with_target(*library, most.min(*may))))
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

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_library_that_talks_too_much_is_cut_short_unless_it_is_named() {
        let usual = read("info").unwrap();
        assert!(usual.would_enable("postbox_relay", &Level::INFO));
        assert!(!usual.would_enable("lapin::channel", &Level::ERROR));
        assert!(!usual.would_enable("async_nats::connector", &Level::ERROR));
        let named = read("info,lapin=warn,async_nats=info").unwrap();
        assert!(named.would_enable("lapin::channel", &Level::WARN));
        assert!(named.would_enable("async_nats::connector", &Level::INFO));
    }
}
