//! The one integration-test binary.

mod contract;
mod differential;
