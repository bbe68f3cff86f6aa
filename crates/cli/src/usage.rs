//! What is wrong with a command line, in the words of this program.

use std::error::Error;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::out::Out;
use crate::table::Tone;

/// Says what is wrong, or the help that was asked for, and returns the exit code.
pub(crate) fn exit(error: &clap::Error, out: Out) -> ExitCode {
    let help = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || error.kind() == help {
        // Nobody listening is no error.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    out.aside(Tone::Bad, format!("postbox: {}", text(error)));
    if let Some(usage) = context(error, ContextKind::Usage) {
        out.aside(Tone::Plain, usage.trim().replace("Usage:", "usage:"));
    }
    out.aside(Tone::Plain, "--help says more");
    ExitCode::from(2)
}

fn text(error: &clap::Error) -> String {
    let get = |kind| context(error, kind);
    let near = |kind| get(kind).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let told = match error.kind() {
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string);
            get(ContextKind::InvalidArg).zip(why).map(|(arg, why)| format!("{arg}: {why}"))
        }
        ErrorKind::InvalidSubcommand => get(ContextKind::InvalidSubcommand).map(|name| {
            format!("there is no command `{name}`{}", near(ContextKind::SuggestedSubcommand))
        }),
        ErrorKind::UnknownArgument => get(ContextKind::InvalidArg).map(|name| {
            format!("`{name}` does not belong here{}", near(ContextKind::SuggestedArg))
        }),
        ErrorKind::MissingRequiredArgument => {
            get(ContextKind::InvalidArg).map(|names| format!("{names} is missing"))
        }
        _ => None,
    };
    told.unwrap_or_else(|| {
        let said = error.render().to_string();
        let first = said.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(all) if !all.is_empty() => Some(all.join(", ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_slip_on_the_command_line_is_told_plainly() {
        for (line, expected) in [
            ("dacne", "there is no command `dacne`"),
            ("migarte", "there is no command `migarte`; did you mean `migrate`?"),
            ("events show abc", "<ID>: \"abc\" is no event id; take one that `postbox events"),
            ("events list --code sink-dwon", "--code <CODE>: there is no code `sink-dwon`; did"),
            ("events list --stauts new", "`--stauts` does not belong here; did you mean `--status"),
            ("run --url sqlite:x", "`--url` does not belong here"),
            ("put order.paid", "<TYPE> is missing"),
            ("put a B x --empty", "the argument '[PAYLOAD]' cannot be used with '--empty'"),
        ] {
            let words = std::iter::once("postbox").chain(line.split(' '));
            let said = text(&Cli::try_parse_from(words).unwrap_err());
            assert!(said.starts_with(expected), "{line}: {said}");
        }
    }
}
