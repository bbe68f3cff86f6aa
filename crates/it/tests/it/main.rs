//! The one integration-test binary.

mod contract;
mod crash;
mod differential;
mod flow;
mod house;
mod instance;
mod outage;
mod shell;
mod sql_facts;
mod stop;
mod world;
