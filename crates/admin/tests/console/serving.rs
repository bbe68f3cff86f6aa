//! The listener itself: who it serves, whom it gives up, how it stops.

use std::sync::Arc;
use std::time::Duration;

use event::Secret;
use postbox_admin::{AdminError, Console, Options, check_token, serve};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::client::open;
use crate::fake::Relay;

async fn refused(address: &str, token: Option<&str>) -> AdminError {
    let listener = TcpListener::bind(address).await.unwrap();
    let pulse = Arc::new(Relay::default());
    let console = Console { outboxes: Vec::new(), pulse, unready: Arc::new(Vec::new) };
    let options = Options { token: token.map(Secret::new), hosts: Vec::new() };
    let served = serve(listener, console, options, CancellationToken::new());
    timeout(Duration::from_secs(10), served).await.expect("it is refused at once").unwrap_err()
}

#[tokio::test]
async fn beyond_loopback_a_token_is_needed_and_a_short_one_is_none() {
    let error = refused("0.0.0.0:0", None).await;
    assert!(matches!(error, AdminError::Open(_)));
    assert!(error.to_string().contains("without a token"), "{error}");
    for (address, token) in [
        ("0.0.0.0:0", ""),
        ("127.0.0.1:0", ""),
        ("127.0.0.1:0", "fifteen-letters"),
        ("127.0.0.1:0", "ééééééééé"),
    ] {
        let error = refused(address, Some(token)).await;
        assert!(matches!(error, AdminError::ShortToken), "{error}");
        assert!(error.to_string().contains("shorter than 16 characters"), "{error}");
    }
    check_token(&Secret::new("sixteen--letters")).unwrap();
}

#[tokio::test]
async fn the_live_stream_ticks_and_ends_with_the_server() {
    let console = open().await;
    console.dead(2);
    let mut stream = TcpStream::connect(console.address).await.unwrap();
    let ask = format!("GET /live HTTP/1.1\r\nhost: {}\r\n\r\n", console.address);
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut kind = None;
    let tick = loop {
        let line = lines.next_line().await.unwrap().expect("the stream goes on");
        kind = kind.or_else(|| line.strip_prefix("content-type: ").map(str::to_string));
        if let Some(data) = line.strip_prefix("data: ") {
            break serde_json::from_str::<serde_json::Value>(data).unwrap();
        }
    };
    assert_eq!(kind.as_deref(), Some("text/event-stream"));
    assert_eq!(tick["outboxes"][0]["counts"]["dead"], 2);
    assert!(tick["beats"].is_array() && tick["lanes"].is_array());
    console.stop.cancel();
    while lines.next_line().await.unwrap().is_some() {}
    console.ended.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_slow_or_idle_is_given_up() {
    let console = open().await;
    let slow = "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ";
    let idle = "GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
    for start in [slow, idle, ""] {
        let mut stream = TcpStream::connect(console.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let end = timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "the connection is still open: {start:?}");
    }
}
