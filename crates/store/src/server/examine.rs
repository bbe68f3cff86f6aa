//! What a look at an outbox finds on every kind of server.

use event::Millis;

use super::base::Base;
use super::dialect::Dialect;
use super::fault::Fault;
use crate::Finding;
use crate::findings;

/// Looks at shards, strategy and clock.
pub(crate) async fn outline<D: Dialect>(
    base: &Base<D>,
    conn: &mut D::Conn,
) -> Result<Vec<Finding>, Fault> {
    let shards = base.shards(conn).await?;
    let written = base.db.strategy(conn, base.now()).await?.map(|(written, _)| written);
    let now = base.db.clock(conn, base.now()).await?;
    Ok(vec![
        findings::shards(shards, base.wanted),
        findings::strategy(base.strategy, written.as_deref()),
        findings::clock(now, Millis::now()),
    ])
}
