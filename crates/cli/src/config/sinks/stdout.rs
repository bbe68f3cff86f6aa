//! `kind = "stdout"`: JSON lines on standard output. It takes no further key.

use std::sync::Arc;

use event::{Cause, Sink};
use toml::Table;

use super::super::section::Section;
use super::{Destination, Wiring};

/// Standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stdout;

impl Destination for Stdout {
    fn read(_: &mut Section<'_>) -> Option<Stdout> {
        Some(Stdout)
    }

    fn print(&self, _: &mut Table) {}

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        Ok(Arc::new(wiring.stdout.of(wiring.outbox)))
    }
}
