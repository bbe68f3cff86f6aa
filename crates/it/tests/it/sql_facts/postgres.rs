//! PostgreSQL, the oldest and the newest that the world has.

mod claims;
mod order;
mod transactions;
mod values;
