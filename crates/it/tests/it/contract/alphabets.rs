//! A producer may write in its own character set: every letter arrives in UTF-8 as it was meant,
//! and every escape byte for byte.

mod mysql;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use event::{Outcome, Payload, Receipt, Topics, Want};
use it::session::Session;
use it::world::need;
use store::{Lane, Setup};

/// A character set, and how one writes in it.
struct Alphabet {
    /// What the servers call it.
    name: &'static str,
    letters: &'static str,
    bytes: fn(char) -> Vec<u8>,
}

const ALPHABETS: [Alphabet; 2] = [
    // As many of them as make an é of UTF-8.
    Alphabet { name: "latin1", letters: "ÀÿéßüñçÃ©", bytes: latin1 },
    // The second byte of one is a backslash; the bytes of another make an é of UTF-8.
    Alphabet { name: "gbk", letters: "中縗文茅縗", bytes: gbk },
];

fn latin1(letter: char) -> Vec<u8> {
    vec![u8::try_from(letter).expect("it is in the set")]
}

fn gbk(letter: char) -> Vec<u8> {
    match letter {
        '中' => vec![0xd6, 0xd0],
        '文' => vec![0xce, 0xc4],
        '縗' => vec![0xbf, 0x5c],
        '茅' => vec![0xc3, 0xa9],
        _ => vec![u8::try_from(letter).ok().filter(u8::is_ascii).expect("it is in the table")],
    }
}

/// Whatever JSON can escape, and what SQL does.
const ESCAPES: &str = r#"\"\\\/\b\f\n\r\t\u00e9\u4e2d\ud83d\ude00 '' ';-- %_ \\' \u0000"#;

/// Runs a statement whose letters are written in a client's own character set.
fn run(url: &str, alphabet: &Alphabet, statement: &str) {
    let bytes: Vec<u8> = statement.chars().flat_map(alphabet.bytes).collect();
    match url.starts_with("postgres") {
        true => psql(url, alphabet.name, &bytes),
        false => mysql::run(url, alphabet.name, &bytes),
    }
}

/// Has PostgreSQL's own client run a statement.
fn psql(url: &str, alphabet: &str, statement: &[u8]) {
    let mut psql = Command::new(need("postgres").detail("psql"));
    psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", url, "--file=-"]);
    psql.env("PGCLIENTENCODING", alphabet).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut psql = psql.spawn().unwrap();
    psql.stdin.take().unwrap().write_all(statement).unwrap();
    let done = psql.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Writes a text as a literal.
fn quote(text: &str, is_postgres: bool) -> String {
    let text = text.replace('\'', "''");
    let text = if is_postgres { text } else { text.replace('\\', r"\\") };
    format!("'{text}'")
}

async fn what_a_client_writes_in_its_own_alphabet_comes_as_it_was_meant(server: &str) {
    let table = format!("t{:016x}", fastrand::u64(..));
    let setup = Setup { table: table.clone(), ..Setup::new(need(server).detail("url")) };
    let outbox = store::open(&setup).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut session = Session::open(&setup.url).await.unwrap();
    if !session.is_postgres() {
        session.run(mysql::ACCOUNT).await.unwrap();
    }
    let lane = outbox.lane(Lane { topics: Topics::all(), ..Lane::default() });
    let want = Want { limit: 10, bytes: 1 << 20, lease: Duration::from_secs(600) };
    for alphabet in ALPHABETS {
        let letters = alphabet.letters;
        let payload = format!(r#"{{"{letters}": "{letters}{ESCAPES}{letters}"}}"#);
        let headers = format!(r#"{{"who": "{letters}"}}"#);
        let values = ["order.paid", &format!("Paid{letters}"), letters, &payload, &headers];
        let values = values.map(|text| quote(text, session.is_postgres()));
        let insert = format!(
            "INSERT INTO {table} (topic, event_type, biz_key, payload, headers) VALUES ({})",
            values.join(", ")
        );
        run(&setup.url, &alphabet, &insert);
        let claims = lane.claim(&want).await.unwrap();
        assert_eq!(claims.len(), 1, "{}", alphabet.name);
        let event = &claims[0].event;
        assert_eq!(event.payload, Payload::Text(payload.clone()), "{}", alphabet.name);
        assert_eq!(event.payload.as_bytes(), payload.as_bytes());
        assert_eq!(event.kind, format!("Paid{letters}"));
        assert_eq!(event.key.as_deref(), Some(letters));
        assert_eq!(event.headers.get("who"), Some(letters));
        let done = claims[0].end(Outcome::Done(Receipt { broker_id: None }));
        assert_eq!(lane.settle(&[done]).await.unwrap().settled, 1);
        let sent = format!("SELECT payload FROM {table}_sent WHERE event_id = '{}'", event.id);
        assert_eq!(session.texts(sent, 0).await.unwrap(), [payload], "it stays so");
    }
    session.close().await.unwrap();
    outbox.close().await;
}

servers!(what_a_client_writes_in_its_own_alphabet_comes_as_it_was_meant);
