//! A relay's line to its database, which can be held: what the relay says meanwhile arrives later.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// One line, for as many connections as the relay opens. It is cut when it is dropped.
pub(super) struct Line {
    address: SocketAddr,
    held: watch::Sender<bool>,
    _carrying: JoinSet<()>,
}

impl Line {
    /// Opens a line to a server.
    pub(super) async fn open(server: SocketAddr) -> Result<Line> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (held, mut carrying) = (watch::Sender::new(false), JoinSet::new());
        let gate = held.subscribe();
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((relay, _)) = listener.accept().await {
                connections.spawn(carry(relay, server, gate.clone()));
            }
        });
        Ok(Line { address, held, _carrying: carrying })
    }

    /// Returns where the relay connects to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds what the relay says, or lets all of it go.
    pub(super) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

async fn carry(relay: TcpStream, server: SocketAddr, held: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (relay.set_nodelay(true), server.set_nodelay(true));
    let ((from_relay, to_relay), (from_server, to_server)) =
        (relay.into_split(), server.into_split());
    let never = watch::Sender::new(false);
    tokio::join!(flow(from_relay, to_server, held), flow(from_server, to_relay, never.subscribe()));
}

/// Carries one way until either end closes. What is held is carried once it no longer is.
async fn flow(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut held: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let open = held.wait_for(|held| !held).await.is_ok();
        if !open || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
