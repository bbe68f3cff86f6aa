//! Suites, harness and measurements: what every implementation of a seam must keep, and the means
//! to try it on the real thing. Nothing here is linked into the product.

pub mod answer;
pub mod brink;
pub mod browser;
pub mod chaos;
pub mod clock;
pub mod console;
pub mod differential;
pub mod door;
pub mod front;
pub mod ground;
pub mod instance;
pub mod journey;
pub mod line;
#[path = "../../../xtask/src/world/ports.rs"]
pub mod ports;
pub mod process;
pub mod quay;
pub mod raw;
pub mod receiver;
pub mod session;
pub mod site;
pub mod suite;
pub mod three;
pub mod world;
