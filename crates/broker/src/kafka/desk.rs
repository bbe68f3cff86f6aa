//! Kafka's own protocol, one call at a time, for what its client library does not ask: who the
//! groups of a broker are, how far each has come, and how full its disks are.
//!
//! It is asked now and then by a look at a cluster, never for an event. Every version here is one
//! that brokers since 0.11 know, 4.x included, except that of the disks, for which each broker is
//! asked first.

use std::io::{ErrorKind, Result};

use event::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::letter::{Answer, Letter};
use super::told::{self, Disks, Place};

const LIST_OFFSETS: (i16, i16) = (2, 1);
const OFFSET_FETCH: (i16, i16) = (9, 2);
const LIST_GROUPS: (i16, i16) = (16, 1);
const SASL_HANDSHAKE: (i16, i16) = (17, 1);
const API_VERSIONS: (i16, i16) = (18, 0);
const DESCRIBE_LOG_DIRS: (i16, i16) = (35, 4);
const SASL_AUTHENTICATE: (i16, i16) = (36, 0);

/// The largest answer that is read.
const LARGEST: usize = 64 << 20;

/// Asks for the end of a partition, or for its beginning.
pub(super) const END: i64 = -1;
pub(super) const BEGINNING: i64 = -2;

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
        told::groups(&answer)
    }

    /// Returns how far a group has come, wherever it has taken anything.
    pub(super) async fn committed(&mut self, group: &str) -> Result<Vec<(Place, i64)>> {
        let mut asked = Letter::default();
        asked.text(group);
        // No list of topics stands for all.
        asked.long(-1);
        let answer = self.call(OFFSET_FETCH, asked).await?;
        told::committed(&answer)
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
        told::offsets(&answer)
    }

    /// Returns how full the disks of this broker are.
    pub(super) async fn disks(&mut self) -> Result<Disks> {
        // A broker hangs up on a version that it does not know.
        let answer = self.call(API_VERSIONS, Letter::default()).await?;
        if !told::knows(&answer, DESCRIBE_LOG_DIRS)? {
            return Ok(Disks::Old);
        }
        let mut asked = Letter::default();
        asked.byte(0);
        // An empty list: the folders alone are told, and nothing of what is in them.
        asked.byte(1);
        asked.byte(0);
        told::disks(&self.call(DESCRIBE_LOG_DIRS, asked).await?)
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
        // Room is made as the answer comes, not as it says that it will.
        let (mut answer, length) = (Vec::new(), length - 4);
        if (&mut self.stream).take(length as u64).read_to_end(&mut answer).await? < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.torn = false;
        Ok(answer)
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

    #[tokio::test]
    async fn an_answer_that_is_too_large_or_ends_early_is_an_error() {
        for (length, kind) in [
            (LARGEST as u32 + 1, ErrorKind::InvalidData),
            (u32::MAX, ErrorKind::InvalidData),
            (3, ErrorKind::InvalidData),
            (LARGEST as u32, ErrorKind::UnexpectedEof),
        ] {
            let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut desk =
                Desk::open(&broker.local_addr().unwrap().to_string(), None).await.unwrap();
            let (mut stream, _) = broker.accept().await.unwrap();
            stream.write_u32(length).await.unwrap();
            // The number of the call, and the beginning of an answer.
            stream.write_all(&[0, 0, 0, 1, 0, 0]).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(desk.groups().await.unwrap_err().kind(), kind, "{length}");
            let again = desk.groups().await.unwrap_err();
            assert_eq!(again.kind(), ErrorKind::NotConnected, "nothing more is read of it");
        }
    }
}
