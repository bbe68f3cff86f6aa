//! How a command ends: its exit code, and what is said about it.

use std::io;
use std::process::ExitCode;

use event::{Cause, Code, StoreError};

use crate::config::Problems;
use crate::out::Out;
use crate::table::Tone;

/// How a command ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All is well.
    Fine,
    /// Something is wrong, or was not found; the command has said what.
    Wrong,
    /// The command line or the config is wrong; the command has said what.
    Misused,
}

/// The command line asks for something that cannot be.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A part of the config that a room refuses, with its cause.
#[derive(Debug)]
pub(crate) struct Refused {
    part: String,
    cause: Cause,
}

impl Refused {
    /// Says that a sink cannot be used as it is.
    pub(crate) fn sink(name: &str, cause: Cause) -> Refused {
        Refused { part: format!("[sink.{name}]"), cause }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.part, self.cause)
    }
}

impl std::error::Error for Refused {}

/// Says what went wrong, and returns the exit code: 0 fine, 1 wrong or not found, 2 usage or
/// config.
pub(crate) fn exit(ended: anyhow::Result<End>, out: Out) -> ExitCode {
    let error = match ended {
        Ok(End::Fine) => return ExitCode::SUCCESS,
        Ok(End::Wrong) => return ExitCode::from(1),
        Ok(End::Misused) => return ExitCode::from(2),
        Err(error) => error,
    };
    let pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(pipe) {
        return ExitCode::SUCCESS;
    }
    if let Some(problems) = error.downcast_ref::<Problems>() {
        out.aside(Tone::Bad, problems.to_string());
        return ExitCode::from(2);
    }
    out.aside(Tone::Bad, format!("postbox: {error:#}"));
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>());
    let refused = error.chain().find_map(|cause| cause.downcast_ref::<Refused>());
    let code = store.map(|store| store.cause().code).or(refused.map(|it| it.cause.code));
    if let Some(code) = code {
        out.aside(Tone::Plain, format!("postbox explain {code}  says what to do"));
    }
    let misused = error.is::<Usage>() || refused.is_some() || code == Some(Code::ConfigInvalid);
    ExitCode::from(if misused { 2 } else { 1 })
}
