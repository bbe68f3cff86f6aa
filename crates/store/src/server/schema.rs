//! Which schema a database has, and how it gets the one that this program works with.

use async_trait::async_trait;
use event::{Cause, Code, StoreError};

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use super::work::{Commit, Scope, Terms, Work};
use crate::{Schema, whole};

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

/// Refuses a schema of which tables are gone. What a newer program made, this one cannot know.
async fn refuse_missing<D: Dialect>(
    base: &Base<D>,
    conn: &mut D::Conn,
    found: u32,
) -> Result<(), Fault> {
    // A migration that was broken off may have made some of the first version's.
    if found == 0 || found > D::WANTED {
        return Ok(());
    }
    let mut missing = Vec::new();
    for name in base.db.tables(found) {
        if !base.db.has(conn, &name).await? {
            missing.push(name);
        }
    }
    Ok(whole::refuse_missing(&base.table, found, &missing)?)
}

/// Reads which schema a database has.
pub(super) struct Reading;

#[async_trait]
impl<D: Dialect> Work<D> for Reading {
    type Out = Schema;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Schema, Fault> {
        let found = base.db.version(conn).await?;
        refuse_missing(base, conn, found).await?;
        Ok(Schema { found, wanted: D::WANTED })
    }
}

/// Brings a database up to date. Two migrations at once are one after the other.
pub(super) struct Migrating;

#[async_trait]
impl<D: Dialect> Work<D> for Migrating {
    type Out = Schema;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, D::MIGRATES)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Schema, Fault> {
        // Whoever may not make tables, as a relay, is not asked to where there is nothing to do.
        let found = base.db.version(conn).await?;
        if found == D::WANTED {
            refuse_missing(base, conn, D::WANTED).await?;
        } else {
            make(base, conn).await.map_err(|fault| match fault {
                Fault::Sql(error) if D::denied(&error) => {
                    whole::not_ours(&base.table, found, D::WANTED, &error).into()
                }
                fault => fault,
            })?;
        }
        Ok(Schema { found: D::WANTED, wanted: D::WANTED })
    }
}

/// Makes what the version that is there lacks.
async fn make<D: Dialect>(base: &Base<D>, conn: &mut D::Conn) -> Result<(), Fault> {
    base.db.queue_up(conn).await?;
    let from = base.db.version(conn).await?;
    refuse_newer(base, from)?;
    refuse_missing(base, conn, from).await?;
    for version in from + 1..=D::WANTED {
        base.db.apply(conn, version, base.wanted).await?;
    }
    base.db.leave_queue(conn).await
}

/// Looks at everything.
pub(super) struct Examining;

#[async_trait]
impl<D: Dialect> Work<D> for Examining {
    type Out = Vec<crate::Finding>;

    fn terms(&self) -> Terms {
        Terms::new(Commit::Sure, Scope::Statement)
    }

    async fn run(&mut self, base: &Base<D>, conn: &mut D::Conn) -> Result<Self::Out, Fault> {
        let found = base.db.version(conn).await?;
        refuse_missing(base, conn, found).await?;
        D::examine(base, conn).await
    }
}
