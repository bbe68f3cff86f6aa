//! What a command says: its answer on standard output, everything else on standard error.
//!
//! Nothing but the answer ever goes to standard output, so it can always be piped.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::escape;
use crate::table::{Table, Tone};

/// Where a command's words go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// Whether the answer is JSON.
    pub(crate) json: bool,
    colour: bool,
    colour_aside: bool,
}

impl Out {
    /// Looks at the terminal: colours only where a person looks, and wants them.
    pub(crate) fn new(json: bool) -> Out {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let wanted = !set("NO_COLOR") && !dumb;
        let colour = wanted && io::stdout().is_terminal();
        Out { json, colour, colour_aside: wanted && io::stderr().is_terminal() }
    }

    /// Says a line of the answer.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_ref().as_bytes())?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    }

    /// Says a JSON value, on one line.
    pub(crate) fn value(&self, value: &Value) -> io::Result<()> {
        self.line(escape::json(value))
    }

    /// Says a table.
    pub(crate) fn table(&self, table: &Table) -> io::Result<()> {
        self.line(table.lines(self.colour).join("\n"))
    }

    /// Paints text of the answer.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        tone.paint(text, self.colour)
    }

    /// Says something that is not part of the answer. Nobody listening is no error.
    pub(crate) fn aside(&self, tone: Tone, text: impl AsRef<str>) {
        let text = tone.paint(text.as_ref(), self.colour_aside);
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}
