//! What every sink keeps, whatever its broker: an answer for each event, and none that is not so.

pub mod answers;
pub mod faults;
pub mod limits;
