//! A small HTTP server on loopback that answers as a test says, and remembers what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// One request, as it came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// Writes this, and waits for the next request.
    Write(String),
    /// Writes this, and ends the connection.
    WriteAndCut(String),
    /// Ends the connection without a word.
    Cut,
    /// Keeps the connection, and says nothing.
    Silence,
}

pub(super) fn status(status: u16) -> Reply {
    with(status, "", "")
}

pub(super) fn with(status: u16, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Write(format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
}

pub(super) struct Server {
    pub(super) port: u16,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

type Script = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;

struct Shared {
    script: Script,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    ended: AtomicUsize,
}

impl Server {
    pub(super) async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Server {
        Server::listen(script, None).await
    }

    pub(super) async fn tls(acceptor: TlsAcceptor) -> Server {
        Server::listen(|_| status(200), Some(acceptor)).await
    }

    async fn listen(
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
        tls: Option<TlsAcceptor>,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        });
        let state = Arc::clone(&shared);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                state.connections.fetch_add(1, Ordering::SeqCst);
                let (state, tls) = (Arc::clone(&state), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => state.serve(stream).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => state.serve(stream).await,
                            Err(_) => None,
                        },
                    };
                    state.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Server { port, shared, listening }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/events?a=b", self.port)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Returns how many connections have not ended yet.
    pub(super) fn open(&self) -> usize {
        self.connections() - self.shared.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Shared {
    /// Serves one connection until it ends.
    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let request = read(&mut stream).await?;
            self.seen.lock().unwrap().push(request.clone());
            let (text, last) = match (self.script)(&request) {
                Reply::Write(text) => (text, false),
                Reply::WriteAndCut(text) => (text, true),
                Reply::Cut => return None,
                Reply::Silence => (String::new(), false),
            };
            stream.write_all(text.as_bytes()).await.ok()?;
            stream.flush().await.ok()?;
            if last {
                return None;
            }
        }
    }
}

async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Seen> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let line = head.remove(0);
    let split = |line: &String| {
        let (name, value) = line.split_once(':').expect("a header has a colon");
        (name.to_owned(), value.trim().to_owned())
    };
    let headers = head.iter().map(split).collect();
    let mut seen = Seen { line, headers, body: Vec::new() };
    seen.body = vec![0; seen.header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}
