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
    /// The transactions of PostgreSQL that wait, each with the number of its process.
    sleepers: Vec<(String, String)>,
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
            let (line, waiting, sleepers) = (None, None, Vec::new());
            return Watch { url, kind, eyes, gate, line, waiting, sleepers, shut: false };
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
        let (url, line, waiting, sleepers) = (url.into(), Some(line), None, Vec::new());
        Watch { url, kind, eyes, gate, line, waiting, sleepers, shut: false }
    }

    /// Ends it, and leaves the tables as they were.
    pub(super) async fn end(mut self) {
        if self.kind == Kind::Postgres {
            let drop = format!("DROP FUNCTION {TABLE}_wait CASCADE; DROP TABLE {TABLE}_passed");
            self.gate.run(drop).await.unwrap();
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
        let waits = match self.kind {
            Kind::Postgres => {
                let asleep = self.eyes.texts(asleep(), 0).await.unwrap();
                let parts = asleep.iter().filter_map(|text| text.split_once(' '));
                self.sleepers = parts.map(|(pid, xid)| (pid.into(), xid.into())).collect();
                !self.sleepers.is_empty()
            }
            _ => {
                let ask = "SELECT COUNT(*) FROM information_schema.processlist \
                           WHERE state = 'User lock'";
                self.waiting = self.line.as_mut().and_then(Brink::waiting);
                self.waiting.is_some() || self.shut && self.eyes.number(ask).await.unwrap() > 0
            }
        };
        if !waits {
            tokio::time::sleep(LOOK).await;
        }
        waits
    }

    async fn let_go(&mut self) {
        match self.kind {
            // Only those that were counted: another may have come since.
            Kind::Postgres => {
                let xids = self.sleepers.drain(..).map(|(_, xid)| format!("('{xid}')"));
                let (there, xids) = (xids.len() as i64, xids.collect::<Vec<_>>().join(", "));
                let ask = format!(
                    "SELECT count(*) FROM pg_stat_activity WHERE backend_xid::text IN ({xids})"
                );
                let still = self.eyes.number(ask).await.unwrap();
                assert_eq!(still, there, "a transaction ended before its rows were counted");
                let pass = format!("INSERT INTO {TABLE}_passed VALUES {xids}");
                self.gate.run(pass).await.unwrap();
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

    /// Counts the rows that others have open: in PostgreSQL those that wait, if any does.
    async fn count(&mut self) -> Open {
        if self.kind == Kind::MariaDb {
            let (all, small) = (self.all().await, self.small().await);
            return vec![("", all - small)];
        }
        let mut open = Vec::new();
        for end in LARGE {
            let asks = match self.kind {
                Kind::Postgres => {
                    let tables = self.eyes.texts(tables(end), 0).await.unwrap().into_iter();
                    tables.map(|table| in_postgres(&table, &self.sleepers)).collect()
                }
                _ => vec![in_mysql(end)],
            };
            for ask in asks {
                open.push((end, self.eyes.number(ask).await.unwrap()));
            }
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

/// Lets every transaction of an outbox wait at its commit until it is told to pass.
async fn shut_postgres(gate: &mut Session) {
    let wait = format!(
        "CREATE TABLE {TABLE}_passed (xid text PRIMARY KEY); \
         CREATE FUNCTION {TABLE}_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         WHILE NOT EXISTS (SELECT FROM {TABLE}_passed WHERE xid = pg_current_xact_id()::xid::text) \
         LOOP PERFORM pg_sleep(0.001); END LOOP; RETURN NULL; END $$"
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

/// Asks PostgreSQL which transactions wait: the numbers of their processes, and their own.
fn asleep() -> String {
    format!(
        "SELECT pid || ' ' || backend_xid FROM pg_stat_activity \
         WHERE wait_event = 'PgSleep' AND backend_xid IS NOT NULL \
         AND NOT EXISTS (SELECT FROM {TABLE}_passed WHERE xid = backend_xid::text)"
    )
}

/// Asks PostgreSQL in which tables rows may be open: their names end so, or stand for a day.
fn tables(end: &str) -> String {
    let days = if end == "_sent" { "_[0-9a-f]" } else { "" };
    format!(
        "SELECT DISTINCT relname::text FROM pg_locks \
         JOIN pg_class ON pg_class.oid = relation AND relkind = 'r' \
         WHERE mode IN ('RowShareLock', 'RowExclusiveLock') AND relname ~ '^{TABLE}{end}{days}$'"
    )
}

/// Asks PostgreSQL how many rows of a table are open, by those that wait if any does. A row may be
/// open by a part of a transaction, whose process says whose it is.
fn in_postgres(table: &str, sleepers: &[(String, String)]) -> String {
    let pids: Vec<&str> = sleepers.iter().map(|(pid, _)| pid.as_str()).collect();
    let theirs = match pids.is_empty() {
        true => String::new(),
        false => format!("AND pid IN ({})", pids.join(", ")),
    };
    format!(
        "SELECT count(*) FROM {table} WHERE xmax = ANY (ARRAY(SELECT transactionid FROM pg_locks \
         WHERE locktype = 'transactionid' AND granted {theirs}))"
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
