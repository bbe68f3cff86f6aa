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

/// Reads a number from the command line that lies between two others.
pub(crate) fn between(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| match most {
        u32::MAX => format!("{text:?} is no number from {least} on"),
        _ => format!("{text:?} is no number from {least} to {most}"),
    })
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
        ErrorKind::InvalidValue => {
            let (value, known) = (get(ContextKind::InvalidValue), get(ContextKind::ValidValue));
            let told = get(ContextKind::InvalidArg).zip(value.zip(known));
            told.map(|(arg, (value, known))| {
                let near = near(ContextKind::SuggestedValue);
                format!("{arg}: `{value}` is none of {known}{near}")
            })
        }
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
            ("demo --rate 0", "--rate <RATE>: \"0\" is no number from 1 to 5000"),
            ("demo --rate fast", "--rate <RATE>: \"fast\" is no number from 1 to 5000"),
            ("events list --limit 0", "--limit <LIMIT>: \"0\" is no number from 1 on"),
            ("completions tcsh", "<SHELL>: `tcsh` is none of bash, elvish, fish, powershell, zsh"),
            (
                "completions zssh",
                "<SHELL>: `zssh` is none of bash, elvish, fish, powershell, zsh; did",
            ),
        ] {
            let words = std::iter::once("postbox").chain(line.split(' '));
            let said = text(&Cli::try_parse_from(words).unwrap_err());
            assert!(said.starts_with(expected), "{line}: {said}");
        }
    }
}
