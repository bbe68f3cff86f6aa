//! One HTTP exchange, letter by letter, for what no browser and no client would ask.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

const PATIENCE: Duration = Duration::from_secs(30);

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header lines, in small letters.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Returns one header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find_map(|(known, value)| (known == name).then_some(value))
    }
}

/// Gets a path, with further header lines.
pub fn get(address: SocketAddr, path: &str, lines: &str) -> Result<Answer> {
    ask(address, "GET", path, &format!("host: {address}\r\n{lines}"))
}

/// Asks with exactly these header lines, each closed by a line break.
pub fn ask(address: SocketAddr, method: &str, path: &str, lines: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nconnection: close\r\n{lines}\r\n")?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said).context("no whole answer")?;
    let said = String::from_utf8_lossy(&said);
    let (head, body) = said.split_once("\r\n\r\n").context("an answer without an end of head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.context("an answer without a status")?;
    Ok(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}
