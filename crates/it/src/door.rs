//! A door to a PostgreSQL server behind which sessions go on when their connections end: to begin
//! one takes the server longer than most of what is asked in it. Whoever comes in finds a session
//! as good as new: everything of its own was thrown away.
//!
//! A session is not kept whose connection broke off, as that of a relay that dies, or that is in
//! the midst of anything.

use std::collections::HashMap;
use std::io::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// How many sessions that begin alike are kept.
const MOST: usize = 24;
/// What a client asks that would like TLS.
const TLS: [u8; 4] = 80_877_103_u32.to_be_bytes();
const NO: &[u8] = b"N";
/// What a server says last in a session that is in the midst of nothing.
const IDLE: &[u8] = b"Z\0\0\0\x05I";
/// What makes a session as good as new, and what the server says when it is.
const ANEW: (&[u8], &[u8]) = (b"Q\0\0\0\x10DISCARD ALL\0", b"DISCARD ALL\0");

/// Opens a door to a server, which stays open as long as this process lives. Returns its address.
pub fn open(server: SocketAddr) -> SocketAddr {
    static DOORS: Mutex<Vec<(SocketAddr, SocketAddr)>> = Mutex::new(Vec::new());
    let mut doors = DOORS.lock().expect("nothing panics while the list is open");
    if let Some((_, door)) = doors.iter().find(|(to, _)| *to == server) {
        return *door;
    }
    let (tell, told) = mpsc::channel();
    // No test's runtime lives as long as a session.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
            let _ = tell.send(listener.local_addr().expect("its address"));
            let kept = Kept::default();
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, server, kept.clone()));
            }
        });
    });
    let door = told.recv().expect("the door opens");
    doors.push((server, door));
    door
}

/// The sessions that nobody uses, by how they were asked for.
type Kept = Arc<Mutex<HashMap<Vec<u8>, Vec<Session>>>>;

struct Session {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// What the server said when it began.
    greeting: Vec<u8>,
}

/// Serves one connection. Where either side breaks off, the other is left as well.
async fn serve(mut client: TcpStream, server: SocketAddr, kept: Kept) -> Result<()> {
    client.set_nodelay(true)?;
    let mut first = opening(&mut client).await?;
    if first[4..] == TLS {
        client.write_all(NO).await?;
        first = opening(&mut client).await?;
    }
    let free = || kept.lock().expect("nothing panics while it is open").get_mut(&first)?.pop();
    let mut session = match free() {
        Some(session) => session,
        None => begin(server, &first).await?,
    };
    client.write_all(&session.greeting).await?;
    let (from_client, mut to_client) = client.into_split();
    let mut from_client = BufReader::new(from_client);
    let mut last = IDLE.to_vec();
    tokio::select! {
        asked = ask(&mut from_client, &mut session.writer) => asked?,
        broke = answer(&mut session.reader, &mut to_client, &mut last) => return broke,
    }
    drop((from_client, to_client));
    if last != IDLE {
        return Ok(());
    }
    session.renew().await?;
    let mut kept = kept.lock().expect("nothing panics while it is open");
    let alike = kept.entry(first).or_default();
    if alike.len() < MOST {
        alike.push(session);
    }
    Ok(())
}

/// Reads what a client says first, which has a length and no kind.
async fn opening(client: &mut TcpStream) -> Result<Vec<u8>> {
    let length = client.read_u32().await?;
    let mut said = length.to_be_bytes().to_vec();
    client.take(u64::from(length).saturating_sub(4)).read_to_end(&mut said).await?;
    Ok(said)
}

/// Begins a session, whose user needs no password.
async fn begin(server: SocketAddr, asked: &[u8]) -> Result<Session> {
    let server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    let (reader, mut writer) = server.into_split();
    writer.write_all(asked).await?;
    let mut session = Session { reader: BufReader::new(reader), writer, greeting: Vec::new() };
    while said(&mut session.reader, &mut session.greeting).await? != b'Z' {}
    Ok(session)
}

/// Reads one thing that is said, and returns its kind.
async fn said(from: &mut BufReader<OwnedReadHalf>, to: &mut Vec<u8>) -> Result<u8> {
    let kind = from.read_u8().await?;
    let length = from.read_u32().await?;
    to.push(kind);
    to.extend(length.to_be_bytes());
    let rest = u64::from(length).saturating_sub(4);
    if from.take(rest).read_to_end(to).await? as u64 != rest {
        return Err(Error::other("it broke off"));
    }
    Ok(kind)
}

/// Passes on what a client asks, until it says that it leaves.
async fn ask(from: &mut BufReader<OwnedReadHalf>, to: &mut OwnedWriteHalf) -> Result<()> {
    let mut asked = Vec::new();
    loop {
        let began = asked.len();
        if said(from, &mut asked).await? == b'X' {
            return to.write_all(&asked[..began]).await;
        }
        if from.buffer().is_empty() {
            to.write_all(&asked).await?;
            asked.clear();
        }
    }
}

/// Passes on what the server answers, for as long as it does, and keeps its last word.
async fn answer(
    from: &mut BufReader<OwnedReadHalf>,
    to: &mut OwnedWriteHalf,
    last: &mut Vec<u8>,
) -> Result<()> {
    loop {
        let said = from.fill_buf().await?;
        if said.is_empty() {
            return Ok(());
        }
        to.write_all(said).await?;
        last.extend_from_slice(&said[said.len().saturating_sub(IDLE.len())..]);
        last.drain(..last.len().saturating_sub(IDLE.len()));
        let passed = said.len();
        from.consume(passed);
    }
}

impl Session {
    /// Makes it as good as new.
    async fn renew(&mut self) -> Result<()> {
        let (ask, told) = ANEW;
        self.writer.write_all(ask).await?;
        let (mut answer, mut anew) = (Vec::new(), false);
        loop {
            answer.clear();
            match said(&mut self.reader, &mut answer).await? {
                b'C' => anew |= answer[5..] == *told,
                b'E' => return Err(Error::other("it is not done")),
                b'Z' if anew => return Ok(()),
                _ => {}
            }
        }
    }
}
