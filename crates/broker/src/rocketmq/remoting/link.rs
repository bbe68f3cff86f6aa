//! One connection to a broker for many requests at once: an answer finds its request by a number.
//!
//! When it breaks, whoever waits on it learns that at once, and the next request makes it anew. It
//! brings nothing a second time.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Secret;
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader, BufWriter, split};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::{next, request};
use crate::trust::{Stream, Trust, connect};

/// Requests that wait to be written, at the most; whoever comes then waits before it.
const BEHIND: usize = 64;

/// Bytes that are written together.
const TOGETHER: usize = 64 << 10;

/// What a broker said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: i64,
    pub(super) remark: String,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The connection was gone before: nothing went out.
    Before,
    /// The request may have gone out.
    After,
}

/// One connection. It ends when nobody has it any more.
pub(super) struct Link {
    out: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
    numbers: AtomicI32,
    _carrying: AbortOnDropHandle<()>,
}

impl Link {
    async fn open(address: &str, trust: Option<&Trust>) -> io::Result<Link> {
        let stream = connect(address, trust).await?;
        let (out, frames) = mpsc::channel(BEHIND);
        let waiting = Arc::new(Waiting::new());
        let carrying = tokio::spawn(carry(stream, frames, Arc::clone(&waiting)));
        let (numbers, carrying) = (AtomicI32::new(1), AbortOnDropHandle::new(carrying));
        Ok(Link { out, waiting, numbers, _carrying: carrying })
    }

    /// Asks one thing, beside whatever else is asked.
    pub(super) async fn ask(
        &self,
        code: i32,
        fields: &[(&str, &str)],
        body: &[u8],
        keys: Option<&(String, Secret)>,
    ) -> Result<Answer, Broken> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let told = self.waiting.add(number).ok_or(Broken::Before)?;
        let _forgotten = Forgotten { waiting: &self.waiting, number };
        let frame = request(code, number, fields, body, keys);
        self.out.send(frame).await.map_err(|_| Broken::Before)?;
        told.await.map_err(|_| Broken::After)
    }

    /// Returns the number of the broker's version, once it has answered anything.
    pub(super) fn version(&self) -> Option<i64> {
        Some(self.waiting.version.load(Ordering::Relaxed)).filter(|version| *version > 0)
    }

    fn is_whole(&self) -> bool {
        self.waiting.requests().is_some()
    }
}

/// Who waits for which answer.
struct Waiting {
    /// `None` once the connection is broken.
    requests: Mutex<Option<Requests>>,
    version: AtomicI64,
}

type Requests = HashMap<i32, oneshot::Sender<Answer>>;

impl Waiting {
    fn new() -> Waiting {
        Waiting { requests: Mutex::new(Some(HashMap::new())), version: AtomicI64::new(0) }
    }

    fn requests(&self) -> MutexGuard<'_, Option<Requests>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, number: i32) -> Option<oneshot::Receiver<Answer>> {
        let (tell, told) = oneshot::channel();
        self.requests().as_mut()?.insert(number, tell);
        Some(told)
    }

    fn answer(&self, header: &Value) {
        // What is no answer is a request of the broker's own, which nobody here serves.
        if header["flag"].as_i64().is_none_or(|flag| flag & 1 == 0) {
            return;
        }
        self.version.store(header["version"].as_i64().unwrap_or(0), Ordering::Relaxed);
        let number = header["opaque"].as_i64().and_then(|number| i32::try_from(number).ok());
        let tell = number.and_then(|number| self.requests().as_mut()?.remove(&number));
        if let Some(tell) = tell {
            let code = header["code"].as_i64().unwrap_or(-1);
            let remark = header["remark"].as_str().unwrap_or_default().to_owned();
            // Whoever has waited long enough is gone.
            let _ = tell.send(Answer { code, remark });
        }
    }

    fn end(&self) {
        *self.requests() = None;
    }
}

/// Takes a request off the list however its wait ends.
struct Forgotten<'a> {
    waiting: &'a Waiting,
    number: i32,
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        if let Some(requests) = self.waiting.requests().as_mut() {
            requests.remove(&self.number);
        }
    }
}

/// Carries both ways until either ends.
async fn carry(
    stream: Box<dyn Stream>,
    mut frames: mpsc::Receiver<Vec<u8>>,
    waiting: Arc<Waiting>,
) {
    let (from, to) = split(stream);
    let (mut from, mut to) = (BufReader::new(from), BufWriter::with_capacity(TOGETHER, to));
    let hear = async {
        loop {
            waiting.answer(&next(&mut from).await?.0);
        }
    };
    let say = async {
        while let Some(frame) = frames.recv().await {
            to.write_all(&frame).await?;
            if frames.is_empty() {
                to.flush().await?;
            }
        }
        Ok(())
    };
    let _: io::Result<()> = tokio::select! {
        heard = hear => heard,
        said = say => said,
    };
    waiting.end();
}

/// The connections to all brokers: one each, made when it is first needed.
#[derive(Default)]
pub(super) struct Links {
    trust: Option<Trust>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
}

/// Who finds none makes one, and others wait for it.
type Slot = tokio::sync::Mutex<Option<Arc<Link>>>;

impl Links {
    pub(super) fn new(trust: Option<Trust>) -> Links {
        Links { trust, ..Links::default() }
    }

    /// Returns the connection to a broker; a broken one is made anew.
    pub(super) async fn to(&self, address: &str) -> io::Result<Arc<Link>> {
        let slot = self.slot(address);
        let mut slot = slot.lock().await;
        if let Some(link) = slot.as_ref().filter(|link| link.is_whole()) {
            return Ok(Arc::clone(link));
        }
        *slot = None;
        let link = Arc::new(Link::open(address, self.trust.as_ref()).await?);
        *slot = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Whoever comes next gets a fresh connection. Those that wait on this one go on waiting.
    pub(super) fn leave(&self, address: &str, link: &Arc<Link>) {
        let slot = self.slot(address);
        // If somebody has it, it is being made anew.
        if let Ok(mut slot) = slot.try_lock()
            && slot.as_ref().is_some_and(|known| Arc::ptr_eq(known, link))
        {
            *slot = None;
        }
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        self.slots().clear();
    }

    fn slot(&self, address: &str) -> Arc<Slot> {
        let mut slots = self.slots();
        match slots.get(address) {
            Some(slot) => Arc::clone(slot),
            None => Arc::clone(slots.entry(address.to_owned()).or_default()),
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::super::{frame, read};
    use super::*;

    async fn hear(stream: &mut TcpStream) -> i64 {
        let mut asked = vec![0; stream.read_u32().await.unwrap() as usize];
        stream.read_exact(&mut asked).await.unwrap();
        read(&asked).unwrap().0["opaque"].as_i64().unwrap()
    }

    async fn say(stream: &mut TcpStream, flag: i64, number: i64) {
        let code = if flag == 1 { number } else { -1 };
        let told = json!({ "code": code, "opaque": number, "flag": flag, "version": 513 });
        stream.write_all(&frame(told.to_string().as_bytes(), b"")).await.unwrap();
    }

    #[tokio::test]
    async fn answers_find_their_requests_in_whatever_order_they_come() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let numbers = [hear(&mut stream).await, hear(&mut stream).await];
            say(&mut stream, 0, numbers[0]).await;
            for number in numbers.into_iter().rev() {
                say(&mut stream, 1, number).await;
            }
            stream
        });
        let links = Links::default();
        let link = links.to(&address).await.unwrap();
        assert_eq!(link.version(), None);
        let (first, second) =
            tokio::join!(link.ask(1, &[], b"", None), link.ask(1, &[], b"", None));
        assert_eq!(first.map(|it| it.code), Ok(1), "a request of the broker is no answer");
        assert_eq!((second.map(|it| it.code), link.version()), (Ok(2), Some(513)));
        assert!(Arc::ptr_eq(&link, &links.to(&address).await.unwrap()), "one for all");
        drop(serving.await.unwrap());
    }

    #[tokio::test]
    async fn a_broken_connection_is_told_to_all_that_wait_and_made_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            hear(&mut stream).await;
            hear(&mut stream).await;
            drop(stream);
            let (mut stream, _) = listener.accept().await.unwrap();
            let number = hear(&mut stream).await;
            say(&mut stream, 1, number).await;
            stream
        });
        let links = Links::default();
        let link = links.to(&address).await.unwrap();
        let (first, second) =
            tokio::join!(link.ask(1, &[], b"", None), link.ask(1, &[], b"", None));
        assert_eq!((first, second), (Err(Broken::After), Err(Broken::After)));
        assert_eq!(link.ask(1, &[], b"", None).await, Err(Broken::Before));
        let link = links.to(&address).await.unwrap();
        assert_eq!(link.ask(1, &[], b"", None).await.map(|it| it.code), Ok(1));
        drop(serving.await.unwrap());
    }
}
