//! The statements of a database, one per file, under the names that an outbox has there.
//!
//! The table's name is the only thing ever put into a statement, and only from an allow-list. What
//! a database calls a statement, and how it asks one, is its own.

use std::sync::{Arc, Mutex, Weak};

/// Makes the statements of a folder: a field for each file, which `Sql::load` reads.
macro_rules! statements {
    ($folder:literal: $($name:ident)+) => {
        /// Every statement.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Sql,)+
        }

        impl Statements {
            /// Names the outbox's tables.
            pub(super) fn new(table: &str) -> Statements {
                use crate::statements::file;
                Statements { $($name: Sql::load(file!($folder, $name), table),)+ }
            }

            /// Returns every statement with its name.
            pub(super) fn all(&self) -> Vec<(&'static str, &Sql)> {
                vec![$((stringify!($name), &self.$name),)+]
            }

            /// Returns the statement that lists what a filter finds in a place.
            pub(super) fn find(
                &self,
                place: crate::listing::Place,
                filter: &event::Filter,
            ) -> &Sql {
                use crate::listing::Place;
                match (place, filter.id.is_some()) {
                    (Place::Hot, true) => &self.find_hot_id,
                    (Place::Hot, false) => &self.find_hot,
                    (Place::Later, true) => &self.find_later_id,
                    (Place::Later, false) => &self.find_later,
                    (Place::Dead, true) => &self.find_dead_id,
                    (Place::Dead, false) => &self.find_dead,
                    (Place::Sent, true) => &self.find_sent_id,
                    (Place::Sent, false) if filter.key.is_some() => &self.find_sent_key,
                    (Place::Sent, false) => &self.find_sent,
                }
            }

            /// Returns the statement that tells how far back one page searches a place, or one key
            /// of it.
            pub(super) fn floor(&self, place: crate::listing::Place, of_key: bool) -> &Sql {
                use crate::listing::Place;
                match (place, of_key) {
                    (Place::Hot | Place::Later, _) => &self.find_later_floor,
                    (Place::Dead, _) => &self.find_dead_floor,
                    (Place::Sent, true) => &self.find_sent_key_floor,
                    (Place::Sent, false) => &self.find_sent_floor,
                }
            }
        }

        /// The statements' names and files.
        #[cfg(test)]
        pub(super) const FILES: &[(&str, &str)] =
            &[$((stringify!($name), crate::statements::file!($folder, $name)),)+];

        #[cfg(test)]
        mod files {
            #[test]
            fn every_statement_says_which_index_serves_it_and_what_it_locks() {
                crate::statements::check_headers(super::FILES);
            }

            #[test]
            fn every_file_is_a_statement_and_every_statement_has_a_file() {
                crate::statements::check_folder($folder, super::FILES);
            }
        }
    };
}

/// Reads the file of a statement.
macro_rules! file {
    ($folder:literal, $name:ident) => {
        include_str!(concat!("../../sql/", $folder, "/", stringify!($name), ".sql"))
    };
}

pub(crate) use {file, statements};

/// The statements of each table, read once for all handles that are open on it.
pub(crate) struct Shared<T>(Mutex<Vec<(String, Weak<T>)>>);

impl<T> Shared<T> {
    /// Starts without any.
    pub(crate) const fn new() -> Shared<T> {
        Shared(Mutex::new(Vec::new()))
    }

    /// Returns those of a table, which are read if nobody has them.
    pub(crate) fn of(&self, table: &str, read: fn(&str) -> T) -> Arc<T> {
        let mut all = self.0.lock().expect("no reading panics");
        all.retain(|(_, statements)| statements.strong_count() > 0);
        let named = all.iter().find(|(of, _)| of == table);
        if let Some(statements) = named.and_then(|(_, statements)| statements.upgrade()) {
            return statements;
        }
        let statements = Arc::new(read(table));
        all.push((table.to_owned(), Arc::downgrade(&statements)));
        statements
    }
}

/// Returns a statement without its header, under the names of a table.
pub(crate) fn code(file: &str, table: &str) -> String {
    let code: Vec<&str> = file.lines().filter(|line| !line.starts_with("--")).collect();
    code.join("\n").replace("{outbox}", table)
}

/// What a statement's header says about indexes.
pub(crate) struct Header {
    named: String,
}

impl Header {
    /// Reads it.
    pub(crate) fn of(file: &str) -> Header {
        let head: Vec<&str> = file.lines().map_while(|line| line.strip_prefix("-- ")).collect();
        let head = head.join(" ");
        let named = head.split("Index: ").nth(1).and_then(|rest| rest.split("Lock").next());
        Header { named: named.unwrap_or_default().to_owned() }
    }

    /// Returns the indexes that it names, as they are written: with `{outbox}`.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = &str> {
        let word = |c: char| !c.is_ascii_alphanumeric() && !"_{}".contains(c);
        self.named.split(word).filter(|word| word.starts_with("{outbox}_"))
    }

    /// Tells whether it names the primary key of something, such as `hot table`.
    pub(crate) fn names_key_of(&self, table: &str) -> bool {
        self.named.contains("primary key") && self.named.contains(&format!("the {table}"))
    }
}

#[cfg(test)]
pub(crate) fn check_headers(files: &[(&str, &str)]) {
    for (name, file) in files {
        let head: String = file.lines().take_while(|line| line.starts_with("--")).collect();
        assert!(head.contains("Index: ") && head.contains("Lock"), "{name}.sql");
        let code = code(file, "outbox").to_ascii_uppercase();
        for banned in ["SELECT *", "INSERT IGNORE", "INSERT OR IGNORE", "NOW()", ";"] {
            assert!(!code.contains(banned), "{name}.sql: {banned}");
        }
    }
}

#[cfg(test)]
pub(crate) fn check_folder(folder: &str, files: &[(&str, &str)]) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(folder);
    let there = std::fs::read_dir(folder).expect("the folder is there");
    let mut there: Vec<String> = there
        .map(|entry| entry.expect("a file of it").file_name())
        .filter_map(|name| name.to_str()?.strip_suffix(".sql").map(str::to_owned))
        .collect();
    there.sort();
    let named: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    assert_eq!(there, named);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_on_one_table_share_what_was_read_and_nothing_stays_without_them() {
        let all = Shared::new();
        let (one, two) = (all.of("a", str::to_owned), all.of("a", |_| "again".to_owned()));
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(*all.of("b", str::to_owned), "b");
        drop((one, two));
        assert_eq!(*all.of("a", |_| "again".to_owned()), "again");
    }
}
