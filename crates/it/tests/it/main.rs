//! The one integration-test binary.

mod browser;
mod contract;
mod crash;
mod differential;
mod flow;
mod house;
mod outage;
mod shell;
mod stop;
mod world;
