//! Why the application did not do its work, and what becomes of the event then.

use std::any::Any;
use std::fmt::Display;

use event::StoreError;

use crate::Error;

/// Why the work on an event failed. The transaction is rolled back in any case.
///
/// Every error becomes one by `?`: it may pass, so the event comes again after a while, until its
/// attempts are spent. Errors that say that the database is down spend none: the consumer rests.
/// What will never pass only the application knows, and says so by [`Failure::never`]: the event is
/// dead at once.
#[derive(Debug)]
pub struct Failure(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    Later(String),
    Never(String),
    Database(sqlx::Error),
    Store(StoreError),
}

impl Failure {
    /// Makes a failure that may pass.
    pub fn later(why: impl Display) -> Failure {
        Failure(Kind::Later(why.to_string()))
    }

    /// Makes a failure that will not pass.
    pub fn never(why: impl Display) -> Failure {
        Failure(Kind::Never(why.to_string()))
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        let text = chain(&error);
        // Boxed to be asked what it is.
        let error: Box<dyn Any> = match (Box::new(error) as Box<dyn Any>).downcast() {
            Ok(database) => return Failure(Kind::Database(*database)),
            Err(error) => error,
        };
        match error.downcast().map(|error| *error) {
            Ok(Error::Store(error)) => Failure(Kind::Store(error)),
            _ => Failure(Kind::Later(text)),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text += ": ";
        text += &error.to_string();
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use event::{Cause, Code};

    use super::*;

    #[test]
    fn every_error_may_pass_and_those_of_the_database_are_known() {
        let other = Failure::from("x".parse::<u8>().expect_err("no number"));
        assert!(matches!(other.0, Kind::Later(why) if why.contains("invalid digit")));
        assert!(matches!(Failure::from(sqlx::Error::PoolClosed).0, Kind::Database(_)));
        let down = Error::Store(StoreError::Down(Cause::new(Code::StoreDown, "gone")));
        assert!(matches!(Failure::from(down).0, Kind::Store(StoreError::Down(_))));
        assert!(matches!(Failure::from(Error::NoTransaction).0, Kind::Later(_)));
    }
}
