//! A line to a MySQL or MariaDB server on which every commit waits until it is let go: what a
//! transaction has open just before its end can then be looked at. It reads plain text only, so
//! whoever connects here does without TLS.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::ports::Ports;

/// How a client asks for a commit: seven bytes, the first packet of a question, a query.
const COMMIT: &[u8] = b"\x07\0\0\0\x03COMMIT";

/// One line, for as many connections as the client opens. It is cut when it is dropped.
pub struct Brink {
    address: SocketAddr,
    waiting: mpsc::Receiver<Waiting>,
    _carrying: JoinSet<()>,
    _port: Ports<1>,
}

/// A commit that waits. It is let go when this is dropped.
pub struct Waiting(#[expect(dead_code, reason = "its end is what counts")] oneshot::Sender<()>);

impl Brink {
    /// Opens a line to a server.
    pub async fn open(server: SocketAddr) -> Result<Brink> {
        let port = Ports::reserve()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.numbers[0])).await?;
        let address = listener.local_addr()?;
        let (brought, waiting) = mpsc::channel(1);
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server, brought.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Brink { address, waiting, _carrying: carrying, _port: port })
    }

    /// Returns where the client connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a commit that waits, if one does.
    pub fn waiting(&mut self) -> Option<Waiting> {
        self.waiting.try_recv().ok()
    }
}

async fn carry(client: TcpStream, server: SocketAddr, brought: mpsc::Sender<Waiting>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            if &buffer[..read] == COMMIT {
                let (go, gone) = oneshot::channel();
                if brought.send(Waiting(go)).await.is_err() {
                    return;
                }
                // It is let go by the end of the other half.
                let _ = gone.await;
            }
            if to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        _ = copy(&mut from_server, &mut to_client) => {}
    }
}
