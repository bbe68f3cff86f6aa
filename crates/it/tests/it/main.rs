//! The one integration-test binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod broken;
mod brokers;
mod browser;
mod chaos;
mod consumer;
mod contract;
mod crash;
mod demand;
mod differential;
mod failover;
mod flow;
mod house;
mod hung;
mod looks;
mod outage;
mod pacing;
mod promises;
mod quickstart;
mod resting;
mod ringing;
mod server;
mod settings;
mod shards;
mod shell;
mod sql_facts;
mod stop;
mod takeover;
mod traits;
mod world;

use it::instance;
