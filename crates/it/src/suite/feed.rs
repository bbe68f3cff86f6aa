//! What every feed keeps, whatever its broker: it forgets nothing before it is told to.

pub mod ends;
pub mod faults;
pub mod order;
pub mod stranger;
