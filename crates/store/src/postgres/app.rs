//! What an application does inside its own transaction.

crate::app::application!(sqlx::PgConnection);
