//! PostgreSQL: the oldest that is promised, the newest, and one between.

mod claims;
mod limits;
mod order;
mod pool;
mod transactions;
mod values;
