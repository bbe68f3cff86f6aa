//! The one integration-test binary.

mod contract;
mod crash;
mod differential;
mod flow;
mod outage;
mod shell;
mod stop;
