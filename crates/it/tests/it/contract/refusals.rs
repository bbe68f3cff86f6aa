//! A database that cannot be worked with says why, whether asking again can help, and no secret.

use event::{Code, Event, StoreError, Topics, Want};
use it::session::Session;
use it::world::need;
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

/// Asks at addresses that lead nowhere, and at one whose user may have no connection.
async fn whoever_cannot_enter_is_told_why(server: &str) {
    let server = need(server);
    let port = server.socket.port();
    let user = format!("u{:016x}", fastrand::u64(..));
    let mut session = Session::open(server.detail("url")).await.unwrap();
    let (scheme, root, full) = match session.is_postgres() {
        true => ("postgres", "postgres:canary", "too many connections"),
        false => ("mysql", "postbox:postbox", "max_user_connections"),
    };
    let create = match session.is_postgres() {
        true => format!("CREATE ROLE {user} LOGIN CONNECTION LIMIT 0"),
        false => format!(
            "CREATE USER {user} IDENTIFIED BY 'canary' WITH MAX_USER_CONNECTIONS 1; \
             GRANT ALL ON postbox.* TO {user}"
        ),
    };
    session.run(create).await.unwrap();
    let url = |user: &str, port: u16, database: &str| {
        format!("{scheme}://{user}@127.0.0.1:{port}/{database}")
    };
    let (name, base) = (format!("{user}:canary"), &server.detail("url"));
    let base = base.rsplit('/').next().unwrap();
    // Where none at all cannot be asked for, one connection is held.
    let held = match session.is_postgres() {
        true => None,
        false => Some(Session::open(&url(&name, port, base)).await.unwrap()),
    };
    for (url, code, again, told) in [
        (url(root, 1, base), Code::StoreDown, true, "answers at 127.0.0.1:1"),
        (url("nobody_here:canary", port, base), Code::StoreBroken, false, "check the user"),
        (url(root, port, "nowhere"), Code::StoreBroken, false, "check the database"),
        (url(&name, port, base), Code::StoreBusy, true, full),
    ] {
        let error = ask(&Setup::new(url)).await;
        let text = format!("{error} {error:?}");
        assert_eq!(
            (error.cause().code, matches!(error, StoreError::Down(_))),
            (code, again),
            "{text}"
        );
        assert!(text.contains(told) && !text.contains("canary"), "{text}");
    }
    drop(held);
    let drop = if session.is_postgres() { "ROLE" } else { "USER" };
    session.run(format!("DROP {drop} {user}")).await.unwrap();
}

async fn whoever_has_no_tables_is_told_how_to_make_them(server: &str) {
    let setup = Setup::new(need(server).detail("url"));
    let error = ask(&Setup { table: "no_such_outbox".into(), ..setup }).await;
    assert_eq!(error.cause().code, Code::SchemaMissing);
    assert!(error.to_string().contains("run postbox migrate"), "{error}");
}

async fn a_database_that_cannot_be_worked_with_says_why(server: &str) {
    whoever_cannot_enter_is_told_why(server).await;
    whoever_has_no_tables_is_told_how_to_make_them(server).await;
}

servers!(a_database_that_cannot_be_worked_with_says_why);
