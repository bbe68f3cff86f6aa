//! A line to a server on which every commit waits until it is let go: what a transaction has open
//! just before its end can then be looked at. A commit can also be cut off there, so that whoever
//! asked for it never learns whether it was done. It reads plain text only, so whoever connects
//! here does without TLS.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use url::Url;

use crate::ports::Ports;

/// One line, for as many connections as the client opens. It is cut when it is dropped.
pub struct Brink {
    address: SocketAddr,
    waiting: mpsc::Receiver<Waiting>,
    _carrying: JoinSet<()>,
    _port: Ports<1>,
}

/// A commit that waits. It is let go when this is dropped.
pub struct Waiting(oneshot::Sender<Cut>);

/// How a commit is cut off, and its connection with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never hears of it, and undoes the transaction.
    Unheard,
    /// It is done, and nobody hears the answer.
    Unanswered,
}

impl Waiting {
    /// Cuts it off.
    pub fn cut(self, how: Cut) {
        // Whoever has gone meanwhile hears nothing either.
        let _ = self.0.send(how);
    }
}

impl Brink {
    /// Opens a line to a MySQL or MariaDB server.
    pub async fn open(server: SocketAddr) -> Result<Brink> {
        Brink::carrying(server, || Speech::MySql).await
    }

    /// Opens a line to a PostgreSQL server. Where a statement commits by itself, that waits too.
    pub async fn open_postgres(server: SocketAddr) -> Result<Brink> {
        Brink::carrying(server, || Speech::Postgres(Postgres::default())).await
    }

    async fn carrying(server: SocketAddr, speech: fn() -> Speech) -> Result<Brink> {
        let port = Ports::reserve()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.numbers[0])).await?;
        let address = listener.local_addr()?;
        let (brought, waiting) = mpsc::channel(1);
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, server, speech(), brought.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Brink { address, waiting, _carrying: carrying, _port: port })
    }

    /// Returns where the client connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a URL of the server as it is reached on this line, by somebody who needs no
    /// password: without TLS, a server may not want to hear one.
    pub fn url(&self, url: &str, account: &str) -> Result<String> {
        let mut url: Url = url.parse()?;
        url.set_port(Some(self.address.port())).ok().context("a port can be set")?;
        url.set_username(account).ok().context("an account can be set")?;
        url.set_password(None).ok().context("a password can be left out")?;
        let plain =
            if url.scheme() == "postgres" { "sslmode=disable" } else { "ssl-mode=disabled" };
        url.set_query(Some(plain));
        Ok(url.into())
    }

    /// Returns a commit that waits, if one does.
    pub fn waiting(&mut self) -> Option<Waiting> {
        self.waiting.try_recv().ok()
    }

    /// Waits for the next commit.
    pub async fn next(&mut self) -> Waiting {
        self.waiting.recv().await.expect("a line brings commits for as long as it is there")
    }
}

async fn carry(
    client: TcpStream,
    server: SocketAddr,
    mut speech: Speech,
    brought: mpsc::Sender<Waiting>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (is_cut, is_postgres) = (AtomicBool::new(false), matches!(speech, Speech::Postgres(_)));
    let there = async {
        let (mut buffer, mut heard) = (vec![0; 64 * 1024], Vec::new());
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            heard.extend_from_slice(&buffer[..read]);
            while let Some(length) = speech.length(&heard).filter(|length| *length <= heard.len()) {
                let packet: Vec<u8> = heard.drain(..length).collect();
                if speech.commits(&packet) {
                    let (tell, told) = oneshot::channel();
                    if brought.send(Waiting(tell)).await.is_err() {
                        return;
                    }
                    match told.await {
                        Ok(Cut::Unheard) => return,
                        Ok(Cut::Unanswered) => is_cut.store(true, Ordering::Relaxed),
                        Err(_) => {}
                    }
                }
                if to_server.write_all(&packet).await.is_err() {
                    return;
                }
            }
        }
    };
    let back = async {
        let (mut buffer, mut unheard) = (vec![0; 64 * 1024], Vec::new());
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            if !is_cut.load(Ordering::Relaxed) {
                if to_client.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
                continue;
            }
            unheard.extend_from_slice(&buffer[..read]);
            if !is_postgres || is_ready(&unheard) {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

/// Tells whether PostgreSQL has said that it is done with everything.
fn is_ready(said: &[u8]) -> bool {
    matches!(said, [.., b'Z', 0, 0, 0, 5, _])
}

/// What is heard of a client.
enum Speech {
    MySql,
    Postgres(Postgres),
}

impl Speech {
    /// Returns how long the next packet is, once that was heard.
    fn length(&self, heard: &[u8]) -> Option<usize> {
        match (self, heard) {
            (Speech::MySql, [a, b, c, _, ..]) => {
                Some(4 + usize::from(*a) + (usize::from(*b) << 8) + (usize::from(*c) << 16))
            }
            (Speech::Postgres(said), heard) => {
                let at = usize::from(said.has_begun);
                let length = heard.get(at..at + 4)?.try_into().ok()?;
                Some(at + usize::try_from(u32::from_be_bytes(length)).ok()?)
            }
            _ => None,
        }
    }

    /// Tells whether a packet asks for a commit, or for the beginning of one.
    fn commits(&mut self, packet: &[u8]) -> bool {
        match self {
            // Seven bytes, the first packet of a question, a query.
            Speech::MySql => packet == b"\x07\0\0\0\x03COMMIT",
            Speech::Postgres(said) => said.commits(packet),
        }
    }
}

/// What a client of PostgreSQL has said.
#[derive(Default)]
struct Postgres {
    /// Whether it has said who it is.
    has_begun: bool,
    /// Whether it is in a transaction.
    is_open: bool,
    /// The statements that write, by name.
    writers: HashSet<Vec<u8>>,
}

impl Postgres {
    fn commits(&mut self, packet: &[u8]) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            return false;
        }
        let mut texts = packet[5..].split(|byte| *byte == 0);
        let (one, other) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        match packet[0] {
            b'Q' => {
                let commits = one.ends_with(b"COMMIT");
                let is_open = one.starts_with(b"BEGIN");
                self.is_open = is_open || self.is_open && !commits && one != b"ROLLBACK";
                commits
            }
            b'P' => {
                let lines = String::from_utf8_lossy(other);
                let writes = |line: &str| {
                    let verbs = ["INSERT INTO ", "UPDATE ", "DELETE FROM "];
                    verbs.iter().any(|verb| line.trim_start().starts_with(verb))
                };
                match lines.lines().any(writes) {
                    true => self.writers.insert(one.to_vec()),
                    false => self.writers.remove(one),
                };
                false
            }
            // The name of a portal, and then of a statement.
            b'B' => !self.is_open && self.writers.contains(other),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of a packet, and what it holds.
    type Said = (u8, &'static [u8]);

    /// Returns which of some questions to PostgreSQL commit.
    fn commits(packets: &[Said]) -> Vec<bool> {
        let mut speech = Speech::Postgres(Postgres::default());
        assert!(!speech.commits(&[0, 0, 0, 8, 0, 3, 0, 0]));
        let packet = |(kind, text): &(u8, &[u8])| {
            let length = u32::try_from(4 + text.len()).unwrap().to_be_bytes();
            [&[*kind][..], &length, text].concat()
        };
        let heard = |packet: Vec<u8>| {
            assert_eq!(speech.length(&packet), Some(packet.len()));
            speech.commits(&packet)
        };
        packets.iter().map(packet).map(heard).collect()
    }

    #[test]
    fn what_postgres_is_asked_commits_at_the_end_or_by_itself() {
        let write: Said = (b'P', b"w\0WITH a AS (\n  UPDATE t\n)\0\0\0");
        let read: Said = (b'P', b"r\0SELECT 1 FROM t\nFOR UPDATE\0\0\0");
        let (writes, reads): (Said, Said) = ((b'B', b"\0w\0"), (b'B', b"\0r\0"));
        assert_eq!(commits(&[write, read, writes, reads]), [false, false, true, false]);
        let (begin, end): (Said, Said) = ((b'Q', b"BEGIN x\0"), (b'Q', b"COMMIT\0"));
        let back: Said = (b'Q', b"ROLLBACK\0");
        let open = [write, begin, writes, end, writes, begin, back, writes];
        assert_eq!(commits(&open), [false, false, false, true, true, false, false, true]);
    }

    #[test]
    fn packets_of_mysql_are_parted_by_their_length() {
        let (mut speech, commit) = (Speech::MySql, b"\x07\0\0\0\x03COMMIT");
        assert_eq!(speech.length(&commit[..3]), None);
        assert_eq!(speech.length(commit), Some(commit.len()));
        assert_eq!(speech.length(&[1, 2, 1, 0]), Some(4 + 0x10201));
        assert!(speech.commits(commit) && !speech.commits(b"\x05\0\0\0\x03BEGI"));
    }
}
