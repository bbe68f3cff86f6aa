//! Kafka's own protocol, one call at a time, for what its client library does not ask: who the
//! groups of a broker are, how far each has come, and how full its disks are.
//!
//! It is asked now and then by a look at a cluster, never for an event. Every version here is one
//! that brokers since 0.11 know, 4.x included, except that of the disks, for which each broker is
//! asked first.

use std::io::{ErrorKind, Result};

use event::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::letter::{Answer, Letter};
use super::told::{self, Disks, Place};
use super::way::Way;
use crate::trust::{Stream, connect};

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
    stream: Box<dyn Stream>,
    calls: i32,
    /// Whether a call was left before its answer was read: the next would read that one.
    torn: bool,
}

impl Desk {
    /// Connects, and shows who we are.
    pub(super) async fn open(address: &str, way: &Way) -> Result<Desk> {
        let stream = connect(address, way.trust.as_ref()).await?;
        let mut desk = Desk { stream, calls: 0, torn: false };
        if let Some((name, password)) = &way.user {
            let mut wanted = Letter::default();
            wanted.text(way.mechanism.name());
            let answer = desk.call(SASL_HANDSHAKE, wanted).await?;
            Answer(&answer).fine()?;
            desk.be_let_in(way, name, password).await?;
        }
        Ok(desk)
    }

    async fn be_let_in(&mut self, way: &Way, name: &str, password: &Secret) -> Result<()> {
        let Some(scram) = way.mechanism.scram(name) else {
            let shown = format!("\0{name}\0{}", password.reveal());
            return self.show(&shown).await.map(drop);
        };
        let answer = self.show(&scram.first()).await?;
        let proof = scram.prove(password, &answer)?;
        proof.check(&self.show(&proof.shown).await?)
    }

    async fn show(&mut self, shown: &str) -> Result<Vec<u8>> {
        let mut letter = Letter::default();
        letter.bytes(shown.as_bytes());
        told::let_in(&self.call(SASL_AUTHENTICATE, letter).await?)
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
        self.stream.flush().await?;
        let length = usize::try_from(self.stream.read_u32().await?).unwrap_or(usize::MAX);
        if !(4..=LARGEST).contains(&length) || self.stream.read_i32().await? != self.calls {
            return Err(ErrorKind::InvalidData.into());
        }
        // Room is made as the answer comes, not as it says that it will.
        let (mut answer, length) = (Vec::new(), length - 4);
        if (&mut *self.stream).take(length as u64).read_to_end(&mut answer).await? < length {
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
    use crate::kafka::Mechanism;
    use crate::trust::Trust;
    use crate::trust::tests::certified;

    #[tokio::test]
    async fn after_a_call_that_was_left_no_other_reads_its_answer() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = broker.local_addr().unwrap().to_string();
        let mut desk = Desk::open(&address, &Way::default()).await.unwrap();
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
            let address = broker.local_addr().unwrap().to_string();
            let mut desk = Desk::open(&address, &Way::default()).await.unwrap();
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

    /// Answers the first calls of whoever comes with these bytes; tells what it was asked.
    async fn answer(mut stream: impl Stream, answers: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for answer in answers {
            let Ok(length) = stream.read_u32().await else { break };
            let mut asked = vec![0; length as usize];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_u32(answer.len() as u32 + 4).await.unwrap();
            stream.write_all(&asked[4..8]).await.unwrap();
            stream.write_all(answer).await.unwrap();
            all.push(asked);
        }
        all
    }

    const NO_GROUPS: &[u8] = &[0; 10];

    #[tokio::test]
    async fn only_a_broker_that_is_vouched_for_under_its_name_is_asked() {
        let (tls, ca) = certified();
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = broker.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = broker.accept().await {
                // Whoever does not trust it leaves.
                if let Ok(stream) = tls.accept(stream).await {
                    answer(stream, &[NO_GROUPS]).await;
                }
            }
        });
        let ask = async |name: &str, cas: Vec<_>| {
            let way = Way { trust: Some(Trust::of(cas)), ..Way::default() };
            Desk::open(&format!("{name}:{port}"), &way).await?.groups().await
        };
        let groups = ask("localhost", vec![ca.clone()]).await.unwrap();
        assert!(groups.is_empty(), "{groups:?}");
        let stranger = ask("localhost", vec![]).await.unwrap_err().to_string();
        assert!(stranger.contains("UnknownIssuer"), "{stranger}");
        let elsewhere = ask("127.0.0.1", vec![ca]).await.unwrap_err().to_string();
        assert!(elsewhere.contains("not valid for name"), "{elsewhere}");
    }

    #[tokio::test]
    async fn a_password_never_leaves_with_scram_and_who_does_not_know_it_is_not_trusted() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = broker.local_addr().unwrap().to_string();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = broker.accept().await.unwrap();
            let mut asked = answer(&mut stream, &[b"\0\0\0\0\0\0"]).await;
            // It goes on from the nonce of whoever asks, and then cannot say what it does not know.
            let length = stream.read_u32().await.unwrap();
            let mut first = vec![0; length as usize];
            stream.read_exact(&mut first).await.unwrap();
            let nonce = String::from_utf8_lossy(&first).rsplit_once("r=").unwrap().1.to_owned();
            let mut told = Letter::default();
            told.0.extend(&first[4..8]);
            told.0.extend([0, 0, 255, 255]);
            told.bytes(format!("r={nonce}x,s=AAAA,i=4096").as_bytes());
            let mut whole = Letter::default();
            whole.bytes(&told.0);
            stream.write_all(&whole.0).await.unwrap();
            asked.push(first);
            asked.extend(answer(&mut stream, &[b"\0\0\xff\xff\0\0\0\x06v=AAAA"]).await);
            asked
        });
        let user = Some(("joe".to_owned(), Secret::new("canary")));
        let way = Way { user, mechanism: Mechanism::ScramSha256, ..Way::default() };
        let refused = Desk::open(&address, &way).await.err().expect("it is not trusted");
        assert!(refused.to_string().contains("does not know the password"), "{refused}");
        let asked = asked.await.unwrap();
        let has = |part: &str| asked.iter().any(|it| String::from_utf8_lossy(it).contains(part));
        assert!(has("SCRAM-SHA-256") && has("n=joe") && has("p="), "{asked:?}");
        assert!(!has("canary"), "{asked:?}");
    }
}
