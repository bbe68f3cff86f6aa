//! PostgreSQL, the oldest and the newest that the world has.

mod claims;
mod limits;
mod order;
mod pool;
mod transactions;
mod values;
