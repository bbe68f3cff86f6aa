//! The console over a real loopback listener, with an outbox in memory behind it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

mod api;
mod client;
mod fake;
mod gate;
mod pages;
mod serving;
mod token;
