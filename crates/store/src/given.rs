//! What callers give, checked before any database sees it.

use event::{Cause, Code, Event, Limits, StoreError};

/// Checks a table's name against the allow-list: 1 to 48 letters, digits and `_`, no digit first.
pub fn check_table(name: &str) -> Result<(), StoreError> {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let first = name.chars().next().is_some_and(letter);
    if first && name.len() <= 48 && name.chars().all(|c| letter(c) || c.is_ascii_digit()) {
        return Ok(());
    }
    let detail = format!(
        "{name:?} is no name for a table; take 1 to 48 letters, digits and _, no digit first"
    );
    Err(StoreError::Broken(Cause::new(Code::ConfigInvalid, detail)))
}

/// Refuses what no database and no broker could carry.
pub(crate) fn check_events(events: &[Event]) -> Result<(), StoreError> {
    for event in events {
        event.check(&Limits::default()).map_err(|invalid| {
            StoreError::Broken(Cause::new(Code::BadEvent, format!("{}: {invalid}", event.id)))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_name_can_never_carry_sql() {
        for good in ["outbox", "_o1", &"a".repeat(48)] {
            check_table(good).unwrap();
        }
        for bad in ["", "1a", "a b", "a;drop", "a\"", "é", &"a".repeat(49)] {
            check_table(bad).unwrap_err();
        }
    }
}
