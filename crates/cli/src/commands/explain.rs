//! `postbox explain [CODE]`: the pages of `docs/errors`, which are compiled in.

use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use event::{EXPLANATIONS, Explanation};
use serde_json::json;

use crate::failure::End;
use crate::nearest::suggestion;
use crate::out::Out;
use crate::table::{Align, Cell, Table, Tone};

/// Explain a cause code: what it means and what to do. Without one, list all.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  postbox explain\n  postbox explain sink-down")]
pub(crate) struct Explain {
    /// The code, as shown with an event or an error.
    #[arg(value_parser = Codes, hide_possible_values = true)]
    code: Option<String>,
}

impl Explain {
    /// Prints the page, or the list.
    pub(crate) fn answer(&self, out: Out) -> anyhow::Result<End> {
        let Some(code) = &self.code else { return list(out) };
        let Some(Explanation { code, page }) = event::explain(code) else {
            let near = suggestion(code, EXPLANATIONS.iter().map(|e| e.code.as_str()));
            let near = if near.is_empty() { "; `postbox explain` lists them" } else { &near };
            out.aside(Tone::Bad, format!("postbox: there is no code `{code}`{near}"));
            return Ok(End::Wrong);
        };
        if out.json {
            out.value(&json!({ "code": code, "page": page }))?;
        } else {
            out.line(page.trim_end())?;
        }
        Ok(End::Fine)
    }
}

/// Reads any text, and lets a shell complete the codes.
#[derive(Clone, Debug)]
pub(crate) struct Codes;

impl TypedValueParser for Codes {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(EXPLANATIONS.iter().map(|known| PossibleValue::new(known.code.as_str()))))
    }
}

fn list(out: Out) -> anyhow::Result<End> {
    let mut table = Table::new(&[("CODE", Align::Left), ("MEANING", Align::Left)]);
    for Explanation { code, page } in EXPLANATIONS {
        let meaning = summary(page);
        if out.json {
            out.value(&json!({ "code": code, "meaning": meaning }))?;
        }
        table.row(vec![Cell::new(code.as_str()), Cell::whole(&meaning)]);
    }
    if !out.json {
        out.table(&table)?;
    }
    Ok(End::Fine)
}

/// Takes the first thing said below the headings: a sentence, or its part before a colon.
fn summary(page: &str) -> String {
    let body = page.lines().skip_while(|line| line.is_empty() || line.starts_with('#'));
    let paragraph: Vec<&str> = body.take_while(|line| !line.is_empty()).collect();
    let text = paragraph.join(" ");
    let end = [". ", ": "].iter().filter_map(|mark| text.find(mark)).min();
    text[..end.unwrap_or(text.len())].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_first_sentence_below_the_headings() {
        assert_eq!(summary("# code\n\n## What\n\nIt is\ndown. Wait.\n\nMore.\n"), "It is down");
        assert_eq!(summary("# code\n\nIt is down: nobody is there.\n"), "It is down");
    }
}
