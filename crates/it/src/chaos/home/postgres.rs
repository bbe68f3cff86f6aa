//! PostgreSQL: each relay has an account of its own, so that every row tells who changed it.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use async_trait::async_trait;
use sqlx::{Connection, PgConnection};
use store::Setup;

use super::{Home, Manners, Session};
use crate::world::Address;

/// How long a producer waits for anything. A relay that is stopped keeps what it has locked for
/// seconds.
const PATIENCE: &str = "250ms";

/// Producers that wait for a relay, and which.
const WAITING: &str = "
    WITH slow AS MATERIALIZED (
        SELECT pid, query FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'producer'
            AND wait_event_type = 'Lock'
    )
    SELECT slow.query, holder.usename::text
    FROM slow CROSS JOIN LATERAL unnest(pg_blocking_pids(slow.pid)) AS blocking (pid)
    JOIN pg_stat_activity AS holder ON holder.pid = blocking.pid
    WHERE holder.application_name = 'postbox'";

/// What is written down when the transaction that changed a row commits: by then a relay that takes
/// a lease has taken it. A lease that is taken or handed over changes its owner by right.
const NOTES: &str = "
    CREATE TABLE chaos_change (
        number bigint GENERATED ALWAYS AS IDENTITY, event_id text, relay text, owner text
    );
    CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_change (event_id, relay, owner)
        SELECT coalesce(NEW.event_id, OLD.event_id), split_part(session_user::text, '_', 3),
            lease.owner
        FROM outbox_lease AS lease
        WHERE lease.name = 'shard:' || coalesce(NEW.shard, OLD.shard);
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO chaos_change (relay, owner)
        VALUES (split_part(session_user::text, '_', 3), OLD.owner);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER note AFTER UPDATE OR DELETE ON outbox
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (session_user <> 'postgres') EXECUTE FUNCTION note_row();
    CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON outbox_later
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (session_user <> 'postgres') EXECUTE FUNCTION note_row();
    CREATE TRIGGER note AFTER UPDATE ON outbox_lease FOR EACH ROW
        WHEN (OLD.shard IS NOT NULL AND OLD.since = NEW.since) EXECUTE FUNCTION note_lease();
    CREATE TABLE sale (event_id text PRIMARY KEY)";

pub(super) struct Database {
    server: Address,
    name: String,
}

impl Database {
    pub(super) async fn make(server: &Address) -> Result<Database> {
        let name = format!("chaos_{:012x}", fastrand::u64(..1 << 48));
        let home = Database { server: server.clone(), name };
        let name = &home.name;
        let mut root = PgConnection::connect(home.server.detail("url")).await?;
        root.run(&format!("CREATE DATABASE {name}")).await?;
        root.run(&format!("CREATE ROLE {name}")).await?;
        let outbox = store::open(&Setup::new(home.url("postgres")?)).await?;
        outbox.migrate().await?;
        outbox.close().await;
        let mut inside = PgConnection::connect(&home.url("postgres")?).await?;
        inside.run(NOTES).await?;
        for what in ["TABLES", "SEQUENCES"] {
            inside.run(&format!("GRANT ALL ON ALL {what} IN SCHEMA public TO {name}")).await?;
        }
        Ok(home)
    }

    fn url(&self, user: &str) -> Result<String> {
        let (_, rest) = self.server.detail("url").split_once('@').context("a url with a user")?;
        let (host, _) = rest.split_once('/').context("a url with a database")?;
        Ok(format!("postgres://{user}@{host}/{}", self.name))
    }
}

#[async_trait]
impl Home for Database {
    fn version(&self) -> String {
        self.server.version.clone()
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.server.socket)
    }

    fn manners(&self) -> Manners {
        let waited = Some("due to lock timeout");
        Manners { producers: 4, begin: "BEGIN", two_phase: true, waited }
    }

    async fn producer(&self) -> Result<Box<dyn Session>> {
        let mut session = PgConnection::connect(&self.url("postgres")?).await?;
        let patience =
            format!("SET lock_timeout = '{PATIENCE}'; SET application_name = 'producer'");
        session.run(&patience).await?;
        Ok(Box::new(session))
    }

    async fn onlooker(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(PgConnection::connect(&self.url("postgres")?).await?))
    }

    async fn account(&self, relay: &str) -> Result<String> {
        // The notes take the relay's name from the third part.
        let user = format!("{}_{relay}", self.name);
        let mut root = PgConnection::connect(self.server.detail("url")).await?;
        root.run(&format!("CREATE ROLE {user} LOGIN IN ROLE {}", self.name)).await?;
        self.url(&user)
    }

    fn waiting(&self) -> Option<&str> {
        Some(WAITING)
    }

    async fn leave(&self) -> Result<()> {
        let name = &self.name;
        let mut root = PgConnection::connect(self.server.detail("url")).await?;
        root.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        let ours = format!("SELECT rolname::text FROM pg_roles WHERE rolname LIKE '{name}%'");
        for role in root.rows(&ours).await?.into_iter().flatten().flatten() {
            root.run(&format!("DROP ROLE {role}")).await?;
        }
        Ok(())
    }
}
