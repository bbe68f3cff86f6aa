//! Kafka's own protocol, one call at a time, where its client library has a client tell only of its
//! own group: who the groups of a broker are, and how far each has come.
//!
//! It is asked now and then by a look at a cluster, never for an event. Every version here is one
//! that brokers since 0.11 know, 4.x included.

use std::io::{Error, ErrorKind, Result};

use event::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LIST_OFFSETS: (i16, i16) = (2, 1);
const OFFSET_FETCH: (i16, i16) = (9, 2);
const LIST_GROUPS: (i16, i16) = (16, 1);
const SASL_HANDSHAKE: (i16, i16) = (17, 1);
const SASL_AUTHENTICATE: (i16, i16) = (36, 0);

/// The largest answer that is read.
const LARGEST: usize = 64 << 20;

/// Asks for the end of a partition, or for its beginning.
pub(super) const END: i64 = -1;
pub(super) const BEGINNING: i64 = -2;

/// A partition of a topic.
pub(super) type Place = (String, i32);

/// What Kafka says of a group that is gone, or that keeps other books.
const GROUP_GONE: i16 = 69;

/// One broker.
pub(super) struct Desk {
    stream: TcpStream,
    calls: i32,
    /// Whether a call was left before its answer was read: the next would read that one.
    torn: bool,
}

impl Desk {
    /// Connects, and shows who we are.
    pub(super) async fn open(address: &str, user: Option<&(String, Secret)>) -> Result<Desk> {
        let mut desk = Desk { stream: TcpStream::connect(address).await?, calls: 0, torn: false };
        if let Some((name, password)) = user {
            let mut wanted = Letter::default();
            wanted.text("PLAIN");
            let answer = desk.call(SASL_HANDSHAKE, wanted).await?;
            Answer(&answer).fine()?;
            let mut shown = Letter::default();
            shown.bytes(format!("\0{name}\0{}", password.reveal()).as_bytes());
            let answer = desk.call(SASL_AUTHENTICATE, shown).await?;
            Answer(&answer).fine()?;
        }
        Ok(desk)
    }

    /// Returns the groups that this broker keeps the books of.
    pub(super) async fn groups(&mut self) -> Result<Vec<String>> {
        let answer = self.call(LIST_GROUPS, Letter::default()).await?;
        let mut answer = Answer(&answer);
        let _throttled = answer.long()?;
        answer.fine()?;
        let mut groups = Vec::new();
        for _ in 0..answer.long()? {
            groups.push(answer.text()?);
            let _protocol = answer.text()?;
        }
        Ok(groups)
    }

    /// Returns how far a group has come, wherever it has taken anything.
    pub(super) async fn committed(&mut self, group: &str) -> Result<Vec<(Place, i64)>> {
        let mut asked = Letter::default();
        asked.text(group);
        // No list of topics stands for all.
        asked.long(-1);
        let answer = self.call(OFFSET_FETCH, asked).await?;
        let (mut answer, mut told) = (Answer(&answer), Vec::new());
        for _ in 0..answer.long()? {
            let topic = answer.text()?;
            for _ in 0..answer.long()? {
                let (partition, offset) = (answer.long()?, answer.number()?);
                let _note = answer.text()?;
                if answer.short()? == 0 && offset >= 0 {
                    told.push(((topic.clone(), partition), offset));
                }
            }
        }
        answer.fine()?;
        Ok(told)
    }

    /// Returns the first or the next offset of partitions, for those of which it is told.
    pub(super) async fn offsets(
        &mut self,
        places: &[&Place],
        which: i64,
    ) -> Result<Vec<(Place, i64)>> {
        let mut asked = Letter::default();
        asked.long(-1);
        asked.count(places.len());
        for (topic, partition) in places {
            asked.text(topic);
            asked.count(1);
            asked.long(*partition);
            asked.number(which);
        }
        let answer = self.call(LIST_OFFSETS, asked).await?;
        let (mut answer, mut told) = (Answer(&answer), Vec::new());
        for _ in 0..answer.long()? {
            let topic = answer.text()?;
            for _ in 0..answer.long()? {
                let (partition, error) = (answer.long()?, answer.short()?);
                let (_time, offset) = (answer.number()?, answer.number()?);
                if error == 0 {
                    told.push(((topic.clone(), partition), offset));
                }
            }
        }
        Ok(told)
    }

    async fn call(&mut self, (key, version): (i16, i16), asked: Letter) -> Result<Vec<u8>> {
        if std::mem::replace(&mut self.torn, true) {
            return Err(ErrorKind::NotConnected.into());
        }
        self.calls += 1;
        let mut letter = Letter::default();
        letter.short(key);
        letter.short(version);
        letter.long(self.calls);
        letter.text("postbox");
        letter.0.extend(asked.0);
        let mut whole = Letter::default();
        whole.bytes(&letter.0);
        self.stream.write_all(&whole.0).await?;
        let length = usize::try_from(self.stream.read_u32().await?).unwrap_or(usize::MAX);
        if !(4..=LARGEST).contains(&length) || self.stream.read_i32().await? != self.calls {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut answer = vec![0; length - 4];
        self.stream.read_exact(&mut answer).await?;
        self.torn = false;
        Ok(answer)
    }
}

/// What is asked.
#[derive(Debug, Default)]
struct Letter(Vec<u8>);

impl Letter {
    fn short(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    fn long(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    fn number(&mut self, value: i64) {
        self.0.extend(value.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        self.long(i32::try_from(count).unwrap_or(i32::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    fn text(&mut self, text: &str) {
        self.short(i16::try_from(text.len()).unwrap_or(i16::MAX));
        self.0.extend(text.as_bytes());
    }
}

/// What is left to read of an answer.
#[derive(Debug)]
struct Answer<'a>(&'a [u8]);

impl Answer<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn short(&mut self) -> Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn long(&mut self) -> Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn number(&mut self) -> Result<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// Reads a text; none is an empty one.
    fn text(&mut self) -> Result<String> {
        let length = usize::try_from(self.short()?).unwrap_or_default();
        let (text, rest) = self.0.split_at_checked(length).ok_or(ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Reads an error code, which is none.
    fn fine(&mut self) -> Result<()> {
        match self.short()? {
            0 => Ok(()),
            GROUP_GONE => Err(ErrorKind::NotFound.into()),
            code => Err(Error::other(format!("error {code} of Kafka"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn after_a_call_that_was_left_no_other_reads_its_answer() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = broker.local_addr().unwrap().to_string();
        let mut desk = Desk::open(&address, None).await.unwrap();
        let soon = Duration::from_millis(50);
        assert!(timeout(soon, desk.groups()).await.is_err(), "nobody answers");
        let again = timeout(soon, desk.groups()).await.expect("it does not wait");
        assert_eq!(again.unwrap_err().kind(), ErrorKind::NotConnected);
    }

    #[test]
    fn an_answer_that_is_cut_short_is_an_error_and_no_panic() {
        let mut letter = Letter::default();
        letter.short(0);
        letter.long(7);
        letter.text("orders");
        for length in 0..letter.0.len() {
            let mut answer = Answer(&letter.0[..length]);
            let read = answer.fine().and(answer.long()).and(answer.text());
            assert!(read.is_err(), "{length}");
        }
        let mut answer = Answer(&letter.0);
        answer.fine().unwrap();
        assert_eq!((answer.long().unwrap(), answer.text().unwrap()), (7, "orders".to_owned()));
        assert_eq!(Answer(&[255, 255]).text().unwrap(), "", "no text");
        assert!(Answer(&[0, 14]).fine().unwrap_err().to_string().contains("14"));
        assert_eq!(Answer(&[0, 69]).fine().unwrap_err().kind(), ErrorKind::NotFound);
    }
}
