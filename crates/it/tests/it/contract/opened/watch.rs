//! Lets the work of an outbox wait just before each of its commits, and counts the rows that it has
//! open then. Rows of leases and tallies, of which there is one for each shard, are not counted.

use std::collections::BTreeMap;
use std::time::Duration;

use it::brink::{Brink, Waiting};
use it::session::Session;
use url::Url;

use super::TABLE;

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// The tables that may be large, by how their names end.
const LARGE: [&str; 5] = ["", "_later", "_dead", "_sent", "_inbox"];

/// How many rows of which tables are open: those that have any. MariaDB tells only their sum.
pub(super) type Open = Vec<(&'static str, i64)>;

/// What is seen of a server from outside.
pub(super) struct Watch {
    /// Where an outbox connects to.
    pub(super) url: String,
    pub(super) kind: Kind,
    eyes: Session,
    gate: Session,
    line: Option<Brink>,
    waiting: Option<Waiting>,
    /// Whether a change of the inbox waits too, where nothing waits by itself.
    shut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Postgres,
    MySql,
    MariaDb,
}

impl Watch {
    pub(super) async fn on(url: &str) -> Watch {
        let (eyes, mut gate) =
            (Session::open(url).await.unwrap(), Session::open(url).await.unwrap());
        if gate.is_postgres() {
            shut_postgres(&mut gate).await;
            let (url, kind) = (url.to_owned(), Kind::Postgres);
            return Watch { url, kind, eyes, gate, line: None, waiting: None, shut: true };
        }
        let version = gate.texts("SELECT VERSION()", 0).await.unwrap().remove(0);
        let kind = if version.contains("MariaDB") { Kind::MariaDb } else { Kind::MySql };
        // Whoever has no password needs no TLS to say so.
        let account = "CREATE USER IF NOT EXISTS 'plain'@'%' IDENTIFIED BY ''; \
                       GRANT ALL ON *.* TO 'plain'@'%'";
        gate.run(account).await.unwrap();
        let mut url: Url = url.parse().unwrap();
        let server = *url.socket_addrs(|| None).unwrap().first().unwrap();
        let line = Brink::open(server).await.unwrap();
        url.set_port(Some(line.address().port())).unwrap();
        url.set_username("plain").unwrap();
        url.set_password(None).unwrap();
        url.set_query(Some("ssl-mode=disabled"));
        Watch { url: url.into(), kind, eyes, gate, line: Some(line), waiting: None, shut: false }
    }

    /// Ends it, and leaves the tables as they were.
    pub(super) async fn end(mut self) {
        if self.kind == Kind::Postgres {
            self.gate.run(format!("DROP FUNCTION {TABLE}_wait CASCADE")).await.unwrap();
        }
        self.gate.close().await.unwrap();
        self.eyes.close().await.unwrap();
    }

    /// Has work done. Returns how many rows it had open before its commits, all together.
    pub(super) async fn during<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> (T, Open) {
        let (work, mut open) = (tokio::spawn(work), Open::new());
        while !work.is_finished() {
            if self.waits().await {
                open.extend(self.count().await);
                self.let_go().await;
            }
        }
        (work.await.unwrap(), sum(open))
    }

    /// Has work done that nothing is counted of.
    pub(super) async fn pass<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let work = tokio::spawn(work);
        while !work.is_finished() {
            if self.waits().await {
                self.let_go().await;
            }
        }
        work.await.unwrap()
    }

    /// Has work done that changes one row of the inbox in no transaction of its own. A server of
    /// the family lets that wait only where it has changed the row.
    pub(super) async fn during_change<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> (T, Open) {
        if self.kind == Kind::Postgres {
            return self.during(work).await;
        }
        let trigger = format!(
            "CREATE TRIGGER {TABLE}_wait AFTER UPDATE ON {TABLE}_inbox FOR EACH ROW BEGIN \
             DO GET_LOCK('brink', 60); DO RELEASE_LOCK('brink'); END"
        );
        self.gate.run(format!("{trigger}; DO GET_LOCK('brink', 60)")).await.unwrap();
        self.shut = true;
        let done = self.during(work).await;
        self.gate.run(format!("DROP TRIGGER {TABLE}_wait")).await.unwrap();
        done
    }

    /// Tells whether anything waits for its commit; if nothing does, after a while.
    async fn waits(&mut self) -> bool {
        self.waiting = self.line.as_mut().and_then(Brink::waiting);
        let ask = match self.kind {
            Kind::Postgres => {
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            }
            _ => "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'",
        };
        let waits = self.waiting.is_some() || self.shut && self.eyes.number(ask).await.unwrap() > 0;
        if !waits {
            tokio::time::sleep(LOOK).await;
        }
        waits
    }

    async fn let_go(&mut self) {
        match self.kind {
            // Whoever waits has it before this asks again, and keeps it until its end.
            Kind::Postgres => {
                self.gate.run("SELECT pg_advisory_unlock(1)").await.unwrap();
                self.gate.run("SELECT pg_advisory_lock(1)").await.unwrap();
            }
            _ if self.waiting.take().is_some() => {}
            _ => {
                self.gate.run("DO RELEASE_LOCK('brink')").await.unwrap();
                self.shut = false;
            }
        }
    }

    /// Counts the rows that a session of the caller's has open.
    pub(super) async fn open(&mut self) -> Open {
        sum(self.count().await)
    }

    /// Counts the rows that others have open.
    async fn count(&mut self) -> Open {
        if self.kind == Kind::MariaDb {
            let (all, small) = (self.all().await, self.small().await);
            return vec![("", all - small)];
        }
        let mut open = Vec::new();
        for end in LARGE {
            let ask = match self.kind {
                Kind::Postgres => in_postgres(end),
                _ => in_mysql(end),
            };
            open.push((end, self.eyes.number(ask).await.unwrap()));
        }
        open
    }

    /// Returns how many rows MariaDB says that transactions have open.
    async fn all(&mut self) -> i64 {
        let status = self.eyes.texts("SHOW ENGINE INNODB STATUS", 2).await.unwrap().remove(0);
        let counts = status.split(" row lock(s)").map(|text| text.rsplit(' ').next());
        let counts: Vec<i64> =
            counts.filter_map(|word| word.and_then(|word| word.parse().ok())).collect();
        assert_eq!(counts.len(), status.matches(" row lock(s)").count(), "{status}");
        counts.into_iter().sum()
    }

    /// Counts the leases and tallies that cannot be opened.
    async fn small(&mut self) -> i64 {
        let mut small = 0;
        for (end, first) in [("_lease", -2), ("_tally", 0)] {
            for shard in first..16 {
                let ask = format!(
                    "SELECT COUNT(*) FROM {TABLE}{end} WHERE shard = {shard} FOR UPDATE NOWAIT"
                );
                small += i64::from(self.eyes.number(ask).await.is_err());
            }
        }
        small
    }

    /// Says what is expected as this server tells it.
    pub(super) fn told(&self, rows: &[(&'static str, i64)]) -> Open {
        match self.kind {
            Kind::MariaDb => sum(rows.iter().map(|(_, rows)| ("", *rows)).collect()),
            _ => sum(rows.to_vec()),
        }
    }
}

/// Adds up what is open of each table.
fn sum(open: Open) -> Open {
    let mut all = BTreeMap::new();
    for (end, rows) in open {
        *all.entry(end).or_insert(0) += rows;
    }
    all.into_iter().filter(|(_, rows)| *rows != 0).collect()
}

/// Lets every transaction of an outbox wait at its commit, for as long as the gate's session lives.
async fn shut_postgres(gate: &mut Session) {
    let wait = format!(
        "CREATE EXTENSION IF NOT EXISTS pgrowlocks; \
         CREATE FUNCTION {TABLE}_wait() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 \
         AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$; \
         SELECT pg_advisory_lock(1)"
    );
    gate.run(wait).await.unwrap();
    for end in ["", "_later", "_dead", "_inbox", "_lease", "_tally"] {
        let trigger = format!(
            "CREATE CONSTRAINT TRIGGER wait AFTER INSERT OR UPDATE OR DELETE ON {TABLE}{end} \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
             WHEN (current_setting('application_name') = 'postbox') \
             EXECUTE FUNCTION {TABLE}_wait()"
        );
        gate.run(trigger).await.unwrap();
    }
}

/// Asks PostgreSQL: a table of which nobody means to open rows is not read.
fn in_postgres(end: &str) -> String {
    let days = if end == "_sent" { "_[0-9a-f]" } else { "" };
    format!(
        "SELECT count(*) FROM (SELECT DISTINCT relname FROM pg_locks \
         JOIN pg_class ON pg_class.oid = relation AND relkind = 'r' \
         WHERE mode IN ('RowShareLock', 'RowExclusiveLock') AND relname ~ '^{TABLE}{end}{days}$') \
         AS meant CROSS JOIN LATERAL pgrowlocks(meant.relname::text) AS row"
    )
}

/// Asks MySQL. A row counts once, however it is open; one of an index counts too.
fn in_mysql(end: &str) -> String {
    format!(
        "SELECT COUNT(DISTINCT COALESCE(partition_name, ''), index_name, \
         COALESCE(lock_data, engine_lock_id)) FROM performance_schema.data_locks \
         WHERE object_name = '{TABLE}{end}' AND lock_type = 'RECORD'"
    )
}
