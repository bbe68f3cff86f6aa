//! What an application does inside its own transaction, on each database.

/// Makes the tables of an outbox as an application knows them, over a kind of connection. Beside it
/// stand the statements, `put`, `inbox` and `error` of that database.
macro_rules! application {
    ($connection:ty) => {
        use event::{Begun, Event, EventId, Millis, StoreError};

        use super::error::judge;
        use super::statements::Statements;
        use super::{inbox, put};
        use crate::given::check_table;

        /// The tables of an outbox, for statements in a transaction that the caller began and will
        /// end.
        #[derive(Debug)]
        pub struct Tables {
            sql: Statements,
        }

        impl Tables {
            /// Names an outbox by its hot table. The other tables are named after it.
            pub fn named(table: &str) -> Result<Tables, StoreError> {
                check_table(table)?;
                Ok(Tables { sql: Statements::new(table) })
            }

            /// Puts an event down, due at `due` or at once.
            pub async fn put(
                &self,
                conn: &mut $connection,
                event: &Event,
                due: Option<Millis>,
            ) -> Result<(), sqlx::Error> {
                put::write(&self.sql, conn, std::slice::from_ref(event), due, None).await
            }

            /// Takes an event in for a group. What may go on is processed once the transaction
            /// commits.
            pub async fn take_in(
                &self,
                conn: &mut $connection,
                group: &str,
                id: EventId,
            ) -> Result<Begun, sqlx::Error> {
                inbox::take_in(&self.sql, conn, group, id).await
            }

            /// Tells whether the transaction still has in it what a group took in. One in which
            /// something went wrong, or that was ended unasked, has not.
            pub async fn remembers(
                &self,
                conn: &mut $connection,
                group: &str,
                id: EventId,
            ) -> Result<bool, sqlx::Error> {
                inbox::remembers(&self.sql, conn, group, id).await
            }
        }

        /// Says what an error of the database means: wait and ask again, or stop.
        pub fn meaning(error: &sqlx::Error) -> StoreError {
            judge(error)
        }
    };
}

pub(crate) use application;
