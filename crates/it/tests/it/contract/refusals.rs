//! A database that cannot be worked with says why, whether asking again can help, and no secret.

use event::{Code, Event, StoreError, Topics, Want};
use it::world::need;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Duration;
use store::{Lane, Setup};

/// Asks an outbox for anything.
async fn ask(setup: &Setup) -> StoreError {
    let outbox = store::open(setup).await.unwrap();
    let put = outbox.put(&[Event::new("t", "T", "{}")], None).await.unwrap_err();
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let want = Want { limit: 1, bytes: 1, lease: Duration::from_secs(30) };
    let claim = lane.claim(&want).await.unwrap_err();
    assert_eq!(put.cause().code, claim.cause().code, "{put} and {claim}");
    outbox.close().await;
    put
}

fn url(user: &str, port: u16, database: &str) -> String {
    format!("postgres://{user}:canary@127.0.0.1:{port}/{database}")
}

#[tokio::test]
async fn postgres_that_cannot_be_reached_or_entered_says_why_and_no_secret() {
    let server = need("postgres");
    let port = server.socket.port();
    let user = format!("u{:016x}", fastrand::u64(..));
    let mut conn = PgConnection::connect(server.detail("url")).await.unwrap();
    let create = format!("CREATE ROLE {user} LOGIN CONNECTION LIMIT 0");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut conn).await.unwrap();
    for (url, code, again, told) in [
        (url("postgres", 1, "postgres"), Code::StoreDown, true, "answers at 127.0.0.1:1"),
        (url("nobody_here", port, "postgres"), Code::StoreBroken, false, "check the user"),
        (url("postgres", port, "nowhere"), Code::StoreBroken, false, "check the database"),
        (url(&user, port, "postgres"), Code::StoreBusy, true, "too many connections"),
    ] {
        let error = ask(&Setup::new(url)).await;
        let text = format!("{error} {error:?}");
        assert_eq!((error.cause().code, matches!(error, StoreError::Down(_))), (code, again));
        assert!(text.contains(told) && !text.contains("canary"), "{text}");
    }
    let drop = format!("DROP ROLE {user}");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut conn).await.unwrap();
}

#[tokio::test]
async fn postgres_without_the_tables_says_how_to_make_them() {
    let setup = Setup::new(need("postgres").detail("url"));
    let error = ask(&Setup { table: "no_such_outbox".into(), ..setup }).await;
    assert_eq!(error.cause().code, Code::SchemaMissing);
    assert!(error.to_string().contains("run postbox migrate"), "{error}");
}
