//! What a lane's view of an outbox promises.

pub mod due;
pub mod lanes;
pub mod lease;
pub mod order;
pub mod sequence;
pub mod settle;
pub mod size;
pub mod together;
pub mod wait;
