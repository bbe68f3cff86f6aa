//! MySQL and MariaDB, with `SKIP LOCKED` and without.

mod claims;
mod gaps;
mod limits;
mod order;
mod poison;
mod pool;
mod snapshots;
mod tables;
mod texts;
mod values;
