//! A look at version, settings, schema and clock, in words for a person.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Millis, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::connect::Commit;
use super::error::Fault;
use super::glance::clock;
use super::schema;
use super::work::Work;
use crate::{Finding, Grade};

/// How far the two clocks may be apart before a person should know.
const APART: u64 = 2_000;

/// Looks at everything.
pub(super) async fn examine(base: &Arc<Base>) -> Result<Vec<Finding>, StoreError> {
    base.carry(Examining).await
}

struct Examining;

#[async_trait]
impl Work for Examining {
    type Out = Vec<Finding>;
    const COMMIT: Commit = Commit::Sure;

    async fn run(&mut self, base: &Base, conn: &mut PgConnection) -> Result<Self::Out, Fault> {
        let what =
            |what: &str, grade, detail: String| Finding { grade, what: what.to_owned(), detail };
        let version: String =
            sqlx::query("SELECT version()").fetch_one(&mut *conn).await?.try_get(0)?;
        let mut findings = vec![what("version", Grade::Good, version)];
        let found = schema::found(base, conn).await?;
        let wanted = schema::WANTED;
        findings.push(match found {
            _ if found == wanted => what("schema", Grade::Good, format!("version {found}")),
            _ if found > wanted => {
                let detail =
                    format!("version {found} is newer than {wanted}; take a newer postbox");
                what("schema", Grade::Bad, detail)
            }
            _ => {
                let detail = format!("version {found}, wanted {wanted}; run postbox migrate");
                what("schema", Grade::Bad, detail)
            }
        });
        if found == wanted {
            let shards = base.shards(conn).await?;
            findings.push(what("shards", Grade::Good, format!("{shards}, fixed at install")));
            let apart = clock(base, conn).await?.0.abs_diff(Millis::now().0);
            let grade = if apart > APART { Grade::Warn } else { Grade::Good };
            let detail = format!("the database's clock and this machine's are {apart} ms apart");
            findings.push(what("clock", grade, detail));
        }
        Ok(findings)
    }
}
