//! A look at version, settings, schema, plans and clock, in words for a person.

use sqlx::{PgConnection, Row};

use super::Postgres;
use super::plan::{mistake, plan_of};
use crate::findings::{self, finding};
use crate::server::{Base, Fault, Keeps, outline};
use crate::{Finding, Grade, Schema};

/// Looks at everything.
pub(super) async fn examine(
    base: &Base<Postgres>,
    conn: &mut PgConnection,
) -> Result<Vec<Finding>, Fault> {
    let version: String =
        sqlx::query("SELECT version()").fetch_one(&mut *conn).await?.try_get(0)?;
    let version = version.split(" on ").next().unwrap_or_default().to_owned();
    let mut findings = vec![finding(Grade::Good, "version", version)];
    let (found, wanted) = (base.db.version(conn).await?, Postgres::WANTED);
    findings.push(findings::schema(Schema { found, wanted }));
    if found == wanted {
        findings.extend(outline(base, conn).await?);
        findings.push(plan(base, conn).await?);
    }
    Ok(findings)
}

/// Asks how a relay's work and a person's questions would be run: an index that was dropped by
/// hand makes a scan of each.
async fn plan(base: &Base<Postgres>, conn: &mut PgConnection) -> Result<Finding, Fault> {
    let mut wrong = Vec::new();
    for (name, sql) in base.db.sql.all().into_iter().filter(findings::is_relays) {
        let steps = plan_of(sql, conn).await?;
        wrong.extend(mistake(name, sql, &base.table, &steps));
    }
    Ok(findings::plan(&wrong, findings::REMAKE))
}
