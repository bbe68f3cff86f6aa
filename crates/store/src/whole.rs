//! Whether every table is there that the version of a schema promises.
//!
//! A table that is gone is never made again behind anybody's back: what it held is gone too, and
//! an empty hot table may begin its numbers anew, below what the leases have passed already.

use std::fmt::Display;

use event::{Cause, Code, StoreError};

/// What to do when a statement has met a table, or a column, that is not there.
pub(crate) const MAKE: &str = "; postbox migrate makes tables that nobody has made yet, and says \
                               what to do about one that is gone";

/// Returns the tables that migrations make, by name.
pub(crate) fn tables(migrations: &[&str], table: &str) -> Vec<String> {
    let made = migrations.iter().flat_map(|file| file.lines());
    let made = made.filter_map(|line| line.strip_prefix("CREATE TABLE "));
    let made = made.map(|rest| rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest));
    let named = made.filter_map(|rest| rest.split([' ', '(']).next());
    named.map(|name| name.replace("{outbox}", table)).collect()
}

/// Refuses an outbox of which tables are gone.
pub(crate) fn refuse_missing(
    table: &str,
    found: u32,
    missing: &[String],
) -> Result<(), StoreError> {
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(", ");
    let kept = ["_dead", "_sent", "_inbox"].map(|rest| format!("{table}{rest}"));
    let remake = match missing.iter().all(|name| kept.contains(name)) {
        true => "make it again, empty, with its statements of `postbox migrate --print`, or ",
        false => "",
    };
    let detail = format!(
        "the database has schema {found} of {table:?} without {names}: restore it from a backup, \
         or {remake}give the outbox another `table` and run `postbox migrate`; if it is there, \
         this account may not see it: run what `postbox migrate --grants` prints"
    );
    Err(StoreError::Broken(Cause::new(Code::SchemaMissing, detail)))
}

/// Makes the answer to an account that may not make what is missing.
pub(crate) fn not_ours(table: &str, found: u32, wanted: u32, said: &dyn Display) -> StoreError {
    let (there, rights) = match found {
        0 => (
            format!("this account sees no tables of {table:?}"),
            ", and grant this account what postbox migrate --grants prints",
        ),
        _ => (format!("the tables of {table:?} have schema {found}, and {wanted} is wanted"), ""),
    };
    let detail = format!(
        "{there}, and may not make any: run postbox migrate with the url of their owner{rights} \
         ({said})"
    );
    StoreError::Broken(Cause::new(Code::SchemaMissing, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_a_schema_are_those_that_its_statements_make() {
        let files = [
            "CREATE TABLE IF NOT EXISTS {outbox}_schema (\n);",
            "CREATE TABLE {outbox} (\n);\nCREATE INDEX {outbox}_i ON {outbox} (a);\n\
             EXECUTE format('CREATE TABLE {outbox}_sent_%s PARTITION OF {outbox}_sent",
        ];
        assert_eq!(tables(&files, "o"), ["o_schema", "o"]);
    }

    #[test]
    fn a_table_that_is_gone_is_named_and_a_hot_one_is_never_made_empty() {
        refuse_missing("o", 1, &[]).unwrap();
        let dead = refuse_missing("o", 1, &["o_dead".to_owned()]).unwrap_err();
        assert_eq!(dead.cause().code, Code::SchemaMissing);
        let said = dead.to_string();
        assert!(said.contains("without o_dead") && said.contains("--print"), "{said}");
        let said = refuse_missing("o", 1, &["o".to_owned(), "o_dead".to_owned()]).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("without o, o_dead") && !said.contains("--print"), "{said}");
    }
}
