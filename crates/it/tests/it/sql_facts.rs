//! What the servers do, wherever a rule of ours depends on it or guards against it.
//!
//! Each fact asserts the vendor's behaviour, on every server that it is told of, so that a change
//! is heard of by name. None of them looks at our own code.

#[macro_use]
mod each;
mod failover;
mod home;
mod mysql;
mod postgres;
mod sqlite;
mod survival;
