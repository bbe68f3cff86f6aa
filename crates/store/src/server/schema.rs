//! Which schema a database has, and how it gets the one that this program works with.

use async_trait::async_trait;
use event::{Cause, Code, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Work};
use crate::Schema;

/// Refuses a schema that a newer program made.
pub(super) fn refuse_newer<D: Dialect>(base: &Base<D>, found: u32) -> Result<(), StoreError> {
    let wanted = D::WANTED;
    if found <= wanted {
        return Ok(());
    }
    let detail = format!(
        "the database has schema {found} of {:?} and this program knows no newer one than {wanted}",
        base.table
    );
    Err(StoreError::Broken(Cause::new(Code::SchemaUnknown, detail)))
}

/// Reads which schema a database has.
pub(super) struct Reading;

#[async_trait]
impl<D: Dialect> Work<D> for Reading {
    type Out = Schema;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Schema, Fault> {
        Ok(Schema { found: base.db.version(conn).await?, wanted: D::WANTED })
    }
}

/// Brings a database up to date. Two migrations at once are one after the other.
pub(super) struct Migrating;

#[async_trait]
impl<D: Dialect> Work<D> for Migrating {
    type Out = Schema;
    const COMMIT: Commit = Commit::Sure;

    fn scope(&self) -> Scope {
        D::MIGRATES
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Schema, Fault> {
        base.db.queue_up(conn).await?;
        let from = base.db.version(conn).await?;
        refuse_newer(base, from)?;
        for version in from + 1..=D::WANTED {
            base.db.apply(conn, version, base.wanted).await?;
        }
        base.db.leave_queue(conn).await?;
        Ok(Schema { found: D::WANTED, wanted: D::WANTED })
    }
}

/// Looks at everything.
pub(super) struct Examining;

#[async_trait]
impl<D: Dialect> Work<D> for Examining {
    type Out = Vec<crate::Finding>;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        D::examine(base, conn).await
    }
}
