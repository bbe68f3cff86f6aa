//! A look at version, settings, schema, plans and clock, in words for a person.

use std::sync::Arc;

use async_trait::async_trait;
use event::{Millis, StoreError};
use sqlx::{PgConnection, Row};

use super::base::Base;
use super::compete;
use super::connect::Commit;
use super::error::Fault;
use super::glance::clock;
use super::plan::{mistake, plan_of};
use super::schema;
use super::work::Work;
use crate::compete::changed;
use crate::findings::{self, finding};
use crate::{Finding, Grade, Schema};

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
        let version: String =
            sqlx::query("SELECT version()").fetch_one(&mut *conn).await?.try_get(0)?;
        let version = version.split(" on ").next().unwrap_or_default().to_owned();
        let mut findings = vec![finding(Grade::Good, "version", version)];
        let found = schema::found(base, conn).await?;
        findings.push(findings::schema(Schema { found, wanted: schema::WANTED }));
        if found == schema::WANTED {
            let shards = base.shards(conn).await?;
            findings.push(self::shards(shards, base.wanted));
            findings.push(strategy(base, conn).await?);
            findings.push(findings::clock(clock(base, conn).await?, Millis::now()));
            findings.push(plan(base, conn).await?);
        }
        Ok(findings)
    }
}

fn shards(there: u16, wanted: u16) -> Finding {
    let detail = format!("{there}, fixed when the tables were made");
    if there == wanted {
        return finding(Grade::Good, "shards", detail);
    }
    let detail = format!("{detail}; the config's {wanted} are without effect");
    finding(Grade::Warn, "shards", detail)
}

/// Says with which strategy the outbox is claimed, if anybody ever claimed from it.
async fn strategy(base: &Base, conn: &mut PgConnection) -> Result<Finding, Fault> {
    let (written, _) = compete::read(base, conn).await?;
    let mine = base.strategy;
    let Some(written) = written else {
        let detail = format!("{mine}, from the first claim on");
        return Ok(finding(Grade::Good, "strategy", detail));
    };
    Ok(match changed(mine, &base.table, Some(&written)) {
        Ok(()) => finding(Grade::Good, "strategy", mine.to_string()),
        Err(_) => {
            let detail = format!(
                "the outbox is claimed with {written} and the config says {mine}; a relay takes it \
                 up only when no other is at work"
            );
            finding(Grade::Warn, "strategy", detail)
        }
    })
}

/// Asks how a relay's work and a person's questions would be run: an index that was dropped by
/// hand makes a scan of each.
async fn plan(base: &Base, conn: &mut PgConnection) -> Result<Finding, Fault> {
    let mut wrong = Vec::new();
    for (name, sql) in base.sql.all() {
        let steps = plan_of(sql, conn).await?;
        wrong.extend(mistake(name, sql, &base.table, &steps));
    }
    let advice = "make a missing index again (postbox migrate --print shows it)";
    Ok(findings::plan(&wrong, advice))
}
