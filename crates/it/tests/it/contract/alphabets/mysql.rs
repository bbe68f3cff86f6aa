//! A client of the MySQL family that says bytes as they are: those of ours are UTF-8.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use url::Url;

const PATIENCE: Duration = Duration::from_secs(60);
/// Long passwords, a database, the protocol of 4.1, transactions, its passwords, and their kinds.
const CAN: u32 = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
/// utf8mb4, until it says otherwise.
const UTF8: u8 = 45;
const ASK: u8 = 3;
const OK: u8 = 0;
const MORE: u8 = 1;
const OTHERWISE: u8 = 0xfe;

/// An account without a password, which may do everything: one is not told in the clear.
pub(super) const ACCOUNT: &str = "CREATE USER IF NOT EXISTS 'plain'@'%' IDENTIFIED BY ''; \
                                  GRANT ALL ON *.* TO 'plain'@'%'";

/// Runs a statement in a character set.
pub(super) fn run(url: &str, alphabet: &str, statement: &[u8]) {
    let url: Url = url.parse().expect("an address");
    let host = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(host).expect("the server answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not nothing");
    enter(&mut stream, url.path().trim_start_matches('/'));
    for words in [format!("SET NAMES {alphabet}").as_bytes(), statement] {
        say(&mut stream, 0, &[&[ASK], words].concat());
        let (_, answer) = hear(&mut stream);
        assert_eq!(answer[0], OK, "{}", String::from_utf8_lossy(&answer));
    }
}

fn enter(stream: &mut TcpStream, database: &str) {
    let (number, _) = hear(stream);
    let mut words = CAN.to_le_bytes().to_vec();
    words.extend((1_u32 << 24).to_le_bytes());
    words.push(UTF8);
    words.extend([0; 23]);
    // Nothing follows the name: it has no password.
    words.extend(format!("plain\0\0{database}\0caching_sha2_password\0").bytes());
    say(stream, number + 1, &words);
    loop {
        let (number, answer) = hear(stream);
        match answer[0] {
            OK => return,
            MORE => {}
            OTHERWISE => say(stream, number + 1, &[]),
            _ => panic!("{}", String::from_utf8_lossy(&answer)),
        }
    }
}

fn say(stream: &mut TcpStream, number: u8, words: &[u8]) {
    let length = u32::try_from(words.len()).expect("it is short").to_le_bytes();
    let head = [length[0], length[1], length[2], number];
    stream.write_all(&[&head, words].concat()).expect("the server listens");
}

fn hear(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 4];
    stream.read_exact(&mut head).expect("the server answers");
    let mut words = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut words).expect("it says all of it");
    (head[3], words)
}
