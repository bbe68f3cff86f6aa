//! Lanes and chores: from a source to a sink, and the upkeep around it.
//!
//! It knows neither a database nor a broker; everything it does, it does through the seams.

mod brake;
pub mod chores;
mod clock;
mod demand;
mod lane;
mod mending;
mod unrouted;

pub use brake::Braked;
pub use clock::SystemClock;
pub use demand::Demanding;
pub use lane::{Lane, Options};
pub use mending::{Fleet, Health, Mending};
pub use unrouted::Unrouted;
