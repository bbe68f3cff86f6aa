//! A console that is being served, and plain HTTP to ask it with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use event::{Cause, Code, Event, Secret, Status};
use postbox_admin::{Console, Options, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fake::{Relay, Shelf, listed};

/// A console on a free port, with the outboxes `orders` and `stock`.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) orders: Arc<Shelf>,
    pub(crate) stock: Arc<Shelf>,
    pub(crate) relay: Arc<Relay>,
    pub(crate) ready: Arc<AtomicBool>,
    pub(crate) stop: CancellationToken,
    pub(crate) ended: JoinHandle<Result<(), postbox_admin::AdminError>>,
    _guard: DropGuard,
}

/// Serves a console that needs no token.
pub(crate) async fn open() -> Served {
    served(Options::default()).await
}

/// The token of a closed console.
pub(crate) const TOKEN: &str = "a-canary-as-token";

/// Serves a console that needs the token.
pub(crate) async fn closed() -> Served {
    served(Options { token: Some(Secret::new(TOKEN)), hosts: Vec::new() }).await
}

async fn served(options: Options) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (orders, stock) = (Arc::new(Shelf::default()), Arc::new(Shelf::default()));
    let (relay, ready) = (Arc::new(Relay::default()), Arc::new(AtomicBool::new(true)));
    let told = ready.clone();
    let console = Console {
        outboxes: vec![("orders".into(), orders.clone()), ("stock".into(), stock.clone())],
        pulse: relay.clone(),
        unready: Arc::new(move || {
            let ready = told.load(std::sync::atomic::Ordering::Relaxed);
            if ready { Vec::new() } else { vec!["orders: store-down".into()] }
        }),
    };
    let stop = CancellationToken::new();
    let ended = tokio::spawn(serve(listener, console, options, stop.clone()));
    let _guard = stop.clone().drop_guard();
    Served { address, orders, stock, relay, ready, stop, ended, _guard }
}

impl Served {
    /// Puts dead events into `orders`, and returns their ids, oldest first.
    pub(crate) fn dead(&self, count: usize) -> Vec<String> {
        let cause = || Cause::new(Code::SinkRefused, "answered 422");
        let make = |n| Event::new("order.paid", "OrderPaid", "{}").key(format!("key-{n}"));
        let rows = (0..count).map(|n| listed(make(n), Status::Dead, Some(cause())));
        let mut shelf = self.orders.rows.lock().unwrap();
        let before = shelf.len();
        shelf.extend(rows);
        shelf[before..].iter().map(|row| row.event.id.to_string()).collect()
    }

    /// Counts the dead events of `orders`.
    pub(crate) fn still_dead(&self) -> usize {
        let rows = self.orders.rows.lock().unwrap();
        rows.iter().filter(|row| row.status == Status::Dead).count()
    }

    /// Asks for a path.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    /// Calls the API as the console's own pages do.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        let origin = format!("http://{}", self.address);
        self.ask("POST", path, &[("origin", &origin), ("x-postbox", "1")], body).await
    }

    /// Asks with headers and a body. A `host` among the headers replaces the right one.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let host = self.address.to_string();
        let mut lines = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            lines += &format!("host: {host}\r\n");
        }
        for (name, value) in headers {
            lines += &format!("{name}: {value}\r\n");
        }
        if !headers.iter().any(|(name, _)| *name == "transfer-encoding") && method == "POST" {
            lines += &format!("content-length: {}\r\n", body.len());
        }
        self.raw(&format!("{lines}\r\n{body}")).await
    }

    /// Writes a request as it is and reads the answer to its end.
    pub(crate) async fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The answer to a request that is too large may come before all of it is taken.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        Answer::read(&String::from_utf8(bytes).unwrap())
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    fn read(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<(String, String)> =
            headers.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let mut answer =
            Answer { status: status.parse().unwrap(), headers, body: body.to_string() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunk(body);
        }
        answer
    }

    /// Returns one header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Reads the body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &rest[..size];
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
