//! What one kind of server is asked, in questions to which every kind has an answer.
//!
//! Who may ask, when, and what an answer means does not depend on the kind: that is the rest of
//! `server`. Every statement is a dialect's.

mod claims;
mod competes;
mod connects;
mod keeps;
mod leases;
mod moves;

pub(crate) use self::claims::{Claimed, Claims, Holder};
pub(crate) use self::competes::Competes;
pub(crate) use self::connects::Connects;
pub(crate) use self::keeps::Keeps;
pub(crate) use self::leases::Leases;
pub(crate) use self::moves::Moves;

/// A kind of server: everything that it is asked.
pub(crate) trait Dialect: Leases + Claims + Moves + Keeps + Competes {}
