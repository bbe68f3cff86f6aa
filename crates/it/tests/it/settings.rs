//! A server on which a statement may last longer, or less long, than was asked for is refused.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use event::StoreError;
use it::instance::Instance;
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
        let between = between(server.socket).await;
        let url = server.detail("url").replace(&server.socket.to_string(), &between.to_string());
        let said = refused(&url).await;
        let right = "keeps @@SESSION.max_statement_time at 20.000000 though 10.000000 was asked";
        assert!(said.contains(right), "{said}");
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

/// Stands between, as a proxy does that sets sessions in its own way: MariaDB itself knows no bound
/// for this limit.
async fn between(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, server));
        }
    });
    address
}

async fn carry(client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    const ASKED: &[u8] = b"max_statement_time = 10";
    let (mut asks, mut hears) = client.into_split();
    let (mut answers, mut told) = TcpStream::connect(server).await?.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut answers, &mut hears).await });
    let mut buffer = vec![0; 64 * 1024];
    while let read @ 1.. = asks.read(&mut buffer).await? {
        if let Some(at) = buffer[..read].windows(ASKED.len()).position(|part| part == ASKED) {
            buffer[at + ASKED.len() - 2] = b'2';
        }
        told.write_all(&buffer[..read]).await?;
    }
    Ok(())
}
