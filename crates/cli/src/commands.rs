//! The commands, one file each.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod listing;
pub(crate) mod migrate;
pub(crate) mod put;
pub(crate) mod run;
pub(crate) mod status;
