//! A session of an application on a server: plain statements, as any language would write them.

use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row, raw_sql};

/// One connection to a server.
pub enum Session {
    /// To PostgreSQL.
    Postgres(PgConnection),
    /// To MySQL or MariaDB.
    MySql(MySqlConnection),
}

impl Session {
    /// Opens one.
    pub async fn open(url: &str) -> sqlx::Result<Session> {
        Ok(match url.starts_with("postgres") {
            true => Session::Postgres(PgConnection::connect(url).await?),
            false => Session::MySql(MySqlConnection::connect(url).await?),
        })
    }

    /// Tells whether the server is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self, Session::Postgres(_))
    }

    /// Runs statements.
    pub async fn run(&mut self, sql: impl Into<String>) -> sqlx::Result<()> {
        let sql = raw_sql(AssertSqlSafe(sql.into()));
        match self {
            Session::Postgres(conn) => sql.execute(conn).await.map(drop),
            Session::MySql(conn) => sql.execute(conn).await.map(drop),
        }
    }

    /// Reads a number.
    pub async fn number(&mut self, sql: impl Into<String>) -> sqlx::Result<i64> {
        let sql = raw_sql(AssertSqlSafe(sql.into()));
        match self {
            Session::Postgres(conn) => sql.fetch_one(conn).await?.try_get(0),
            Session::MySql(conn) => sql.fetch_one(conn).await?.try_get(0),
        }
    }

    /// Reads a column of texts, by its place.
    pub async fn texts(&mut self, sql: impl Into<String>, at: usize) -> sqlx::Result<Vec<String>> {
        let sql = raw_sql(AssertSqlSafe(sql.into()));
        match self {
            Session::Postgres(conn) => {
                sql.fetch_all(conn).await?.iter().map(|row| row.try_get(at)).collect()
            }
            Session::MySql(conn) => {
                sql.fetch_all(conn).await?.iter().map(|row| row.try_get(at)).collect()
            }
        }
    }

    /// Commits what is open, and ends.
    pub async fn commit(mut self) -> sqlx::Result<()> {
        self.run("COMMIT").await?;
        self.close().await
    }

    /// Ends it.
    pub async fn close(self) -> sqlx::Result<()> {
        match self {
            Session::Postgres(conn) => conn.close().await,
            Session::MySql(conn) => conn.close().await,
        }
    }

    /// Returns what stands after FROM for the numbers from 1 to `most`, called `n`: a million at
    /// the most.
    pub fn numbers(&self, most: i64) -> String {
        if self.is_postgres() {
            return format!("generate_series(1, {most}) AS n");
        }
        let digit = |name: &str| {
            let digits: Vec<String> = (1..10).map(|digit| format!("SELECT {digit}")).collect();
            format!("(SELECT 0 AS n UNION ALL {}) AS {name}", digits.join(" UNION ALL "))
        };
        let names = ["a", "b", "c", "d", "e", "f"];
        let places = (most - 1).max(0).to_string().len();
        let names = names.iter().enumerate().take(places);
        let place = |(at, name): (usize, &&str)| format!("{name}.n * {}", 10_i64.pow(at as u32));
        let sum: Vec<String> = names.clone().map(place).collect();
        let digits: Vec<String> = names.map(|(_, name)| digit(name)).collect();
        let (sum, all) = (sum.join(" + "), digits.join(" CROSS JOIN "));
        format!("(SELECT {sum} + 1 AS n FROM {all}) AS numbers WHERE n <= {most}")
    }
}
