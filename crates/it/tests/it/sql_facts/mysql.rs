//! MySQL and MariaDB, with `SKIP LOCKED` and without.

mod claims;
mod gaps;
mod order;
mod poison;
mod tables;
mod texts;
mod values;
