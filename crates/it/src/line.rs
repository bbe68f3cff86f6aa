//! A line to a server: what is said on it can be held, so that it arrives later, and it can be cut.
//! Each of the two ways is held by itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ports::Ports;

/// One line, for as many connections as the client opens. It is cut when it is dropped.
pub struct Line {
    address: SocketAddr,
    state: watch::Sender<State>,
    /// What the server has said while that was held.
    unheard: Unheard,
    carrying: JoinSet<()>,
    _port: Option<Ports<1>>,
}

type Unheard = Arc<Mutex<Vec<u8>>>;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// What the client says waits.
    held: bool,
    /// What the server says waits.
    answers_held: bool,
    /// How often the line was cut.
    cuts: u64,
}

impl Line {
    /// Opens a line to a server.
    pub async fn open(server: SocketAddr) -> Result<Line> {
        let port = Ports::reserve()?;
        let line = Line::open_at((Ipv4Addr::LOCALHOST, port.numbers[0]).into(), server).await?;
        Ok(Line { _port: Some(port), ..line })
    }

    /// Opens a line that begins at a given address.
    pub async fn open_at(at: SocketAddr, server: SocketAddr) -> Result<Line> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let (state, mut carrying) = (watch::Sender::new(State::default()), JoinSet::new());
        let (seen, unheard) = (state.subscribe(), Unheard::default());
        let noted = Arc::clone(&unheard);
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server, seen.clone(), Arc::clone(&noted)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Line { address, state, unheard, carrying, _port: None })
    }

    /// Returns where the client connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds what the client says, or lets all of it go.
    pub fn hold(&self, held: bool) {
        self.state.send_modify(|state| state.held = held);
    }

    /// Holds what the server says, or lets all of it go.
    pub fn hold_answers(&self, held: bool) {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.state.send_modify(|state| state.answers_held = held);
    }

    /// Tells whether the server has said a word since its answers are held.
    pub fn holds(&self, word: &str) -> bool {
        let unheard = self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        unheard.windows(word.len()).any(|it| it == word.as_bytes())
    }

    /// Cuts every connection, and returns when nobody listens any more. Nobody else can, for as
    /// long as this lives.
    pub async fn close(&mut self) {
        self.carrying.shutdown().await;
    }

    /// Cuts every connection; what is held on it is lost. New ones are carried.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }
}

async fn carry(
    client: TcpStream,
    server: SocketAddr,
    state: watch::Receiver<State>,
    unheard: Unheard,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let (mut cut, cuts) = (state.clone(), state.borrow().cuts);
    let there = flow(from_client, to_server, state.clone(), |state| state.held, |_| {});
    let note = |said: &[u8]| {
        unheard.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(said)
    };
    let back = flow(from_server, to_client, state, |state| state.answers_held, note);
    tokio::select! {
        // What was held when the line was cut is lost, also if it is let go at the same moment.
        biased;
        _ = cut.wait_for(|state| state.cuts > cuts) => {}
        _ = async { tokio::join!(there, back) } => {}
    }
}

/// Carries one way until either end closes. What is held is noted, and carried once it no longer
/// is.
async fn flow(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    held: fn(&State) -> bool,
    note: impl Fn(&[u8]),
) {
    let (mut buffer, mut kept, mut is_open) = (vec![0; 64 * 1024], Vec::new(), true);
    while is_open || !kept.is_empty() {
        tokio::select! {
            biased;
            let_go = free(&mut state, held), if !kept.is_empty() => {
                if !let_go || to.write_all(&kept).await.is_err() {
                    return;
                }
                kept.clear();
            }
            read = from.read(&mut buffer), if is_open => {
                let Ok(read @ 1..) = read else { is_open = false; continue };
                if held(&state.borrow()) {
                    note(&buffer[..read]);
                }
                kept.extend_from_slice(&buffer[..read]);
            }
        }
    }
    let _ = to.shutdown().await;
}

/// Waits until what is said is not held; tells whether there still is a line.
async fn free(state: &mut watch::Receiver<State>, held: fn(&State) -> bool) -> bool {
    state.wait_for(|state| !held(state)).await.is_ok()
}
