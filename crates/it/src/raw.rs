//! One HTTP exchange, letter by letter, for what no browser and no client would ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

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
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(known, value)| (known == name).then_some(value.trim()))
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
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(stream.read_line(&mut head)? > 0, "an answer without an end of its head: {head}");
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("an answer without a status: {head}"))?;
    let mut answer = Answer { status, head: head.to_ascii_lowercase(), body: String::new() };
    // Some servers keep a connection open whatever they are asked.
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    let mut body = Vec::new();
    stream.take(length.unwrap_or(u64::MAX)).read_to_end(&mut body).context("half an answer")?;
    answer.body = String::from_utf8_lossy(&body).into_owned();
    Ok(answer)
}
