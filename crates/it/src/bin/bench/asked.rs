//! What is asked for on the command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::stores::Part;

pub(crate) struct Asked {
    pub(crate) json: bool,
    /// Whether the table is wanted as a page holds it.
    pub(crate) page: bool,
    /// Where to draw the ratios.
    pub(crate) chart: Option<PathBuf>,
    /// Which parts of a store are measured, if not the usual.
    pub(crate) only: Option<Vec<Part>>,
    /// How many events each drain has, if it is said.
    pub(crate) events: Option<usize>,
    pub(crate) behind: Option<usize>,
    /// What to measure, and then where.
    pub(crate) words: Vec<String>,
}

impl Asked {
    pub(crate) fn read(mut args: impl Iterator<Item = String>) -> Result<Asked> {
        let mut asked = Asked {
            json: false,
            page: false,
            chart: None,
            only: None,
            events: None,
            behind: None,
            words: Vec::new(),
        };
        while let Some(arg) = args.next() {
            let mut given = || args.next().with_context(|| format!("{arg} what?"));
            let number = |given: String| given.parse().with_context(|| format!("{arg} N"));
            match arg.as_str() {
                "--json" => asked.json = true,
                "--page" => asked.page = true,
                "--chart" => asked.chart = Some(given()?.into()),
                "--only" => asked.only = Some(Part::read(&given()?)?),
                "--events" => asked.events = Some(number(given()?)?),
                "--behind" => asked.behind = Some(number(given()?)?),
                word if !word.starts_with('-') => asked.words.push(word.to_owned()),
                other => bail!(
                    "{other:?} is unknown; there are --json, --page, --chart FILE, --only \
                     PART,…, --events N, --behind N"
                ),
            }
        }
        Ok(asked)
    }
}
