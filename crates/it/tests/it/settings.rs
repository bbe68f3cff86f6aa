//! A server whose sessions are not as they were asked for is refused, such as one on which a
//! statement may last longer, or less long.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use event::StoreError;
use it::instance::Instance;
use it::session::Session;
use it::world::need;
use store::Setup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_mysql_that_keeps_another_limit_for_statements_is_refused() {
    let more = ["--maximum-max-execution-time=5000"];
    let said = refused(&Instance::start_with("mysql", &more).unwrap().url).await;
    let right = "keeps @@SESSION.max_execution_time at 5000 though 10000 was asked for";
    assert!(said.contains(right), "{said}");
}

#[tokio::test]
async fn a_mariadb_that_keeps_another_limit_for_statements_is_refused() {
    for server in ["mariadb", "mariadb-10.5"] {
        let server = need(server);
        let between = between(server.socket, b"max_statement_time = 10").await;
        let url = server.detail("url").replace(&server.socket.to_string(), &between.to_string());
        let said = refused(&url).await;
        let right = "keeps @@SESSION.max_statement_time at 20.000000 though 10.000000 was asked";
        assert!(said.contains(right), "{said}");
    }
}

#[tokio::test]
async fn a_postgres_that_is_not_told_a_setting_at_first_is_refused() {
    for server in ["postgres-13", "postgres", "postgres-18"] {
        let server = need(server);
        let between = between(server.socket, b"-c lock_timeout=5s").await;
        let url = server.detail("url").replace(&server.socket.to_string(), &between.to_string());
        let said = refused(&url).await;
        assert!(said.contains("keeps lock_timeout at 2s though 5s was asked for"), "{said}");
        assert!(said.contains("a pooler in between must be gone around"), "{said}");
    }
}

#[tokio::test]
async fn what_the_address_asks_for_is_kept_and_what_the_relay_needs_prevails() {
    let instance = Instance::start("postgres").unwrap();
    let mut session = opened(&instance.url).await;
    session.run("CREATE SCHEMA shop").await.unwrap();
    let asked = "options=-c%20lock_timeout%3D1s%20-c%20search_path%3Dshop&options[jit]=on";
    let outbox = store::open(&Setup::new(format!("{}?{asked}", instance.url))).await.unwrap();
    outbox.migrate().await.unwrap();
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'shop'";
    assert!(session.number(tables).await.unwrap() > 0);
}

/// Opens a session on a server that may just be starting.
async fn opened(url: &str) -> Session {
    let until = Instant::now() + PATIENCE;
    loop {
        match Session::open(url).await {
            Ok(session) => return session,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns why a server is refused. It may just be starting.
async fn refused(url: &str) -> String {
    let outbox = store::open(&Setup::new(url)).await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        match outbox.migrate().await {
            Err(StoreError::Broken(cause)) => return cause.to_string(),
            Err(StoreError::Down(cause)) => assert!(Instant::now() < until, "{cause}"),
            Ok(_) => panic!("it was taken"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Stands between, as a proxy does that sets sessions in its own way, and makes a 2 of the last
/// letter but one of what is asked: neither MariaDB nor PostgreSQL knows a bound for these limits.
async fn between(server: SocketAddr, asked: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, server, asked));
        }
    });
    address
}

async fn carry(client: TcpStream, server: SocketAddr, asked: &[u8]) -> std::io::Result<()> {
    let (mut asks, mut hears) = client.into_split();
    let (mut answers, mut told) = TcpStream::connect(server).await?.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut answers, &mut hears).await });
    let mut buffer = vec![0; 64 * 1024];
    while let read @ 1.. = asks.read(&mut buffer).await? {
        if let Some(at) = buffer[..read].windows(asked.len()).position(|part| part == asked) {
            buffer[at + asked.len() - 2] = b'2';
        }
        told.write_all(&buffer[..read]).await?;
    }
    Ok(())
}
