//! The only room that knows brokers: one file and one feature each, behind the seam `Sink`.
//!
//! A sink offers events and says honestly what it knows: a receipt, a refusal, or that it cannot
//! know. It never tries again by itself, never judges, and never sees a store.

pub mod gate;
#[cfg(feature = "http")]
pub mod http;
pub mod keyed;
#[cfg(feature = "stdout")]
pub mod stdout;
pub mod webhook;
pub mod width;
