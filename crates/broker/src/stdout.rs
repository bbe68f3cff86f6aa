//! The sink `stdout`: one line of JSON per event, a structured CloudEvent.
//!
//! A receipt means that the line was written and flushed. It never buffers beyond an answer, and
//! never waits longer than [`Stdout::LONGEST`] for a reader that has fallen asleep.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::{Answer, Cause, Code, Durability, Envelope, Event, Receipt, Refusal, Sink};
use tokio::sync::Mutex;
use tokio::task;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::traits::Traits;

/// What a reader of lines can do. There is no feed: order is that of the lines.
pub const TRAITS: Traits = Traits {
    kind: "stdout",
    durability: Durability::BestEffort,
    keeps: false,
    largest: usize::MAX,
    dedupes: false,
    knows_topics: false,
    ordered: true,
    counts: false,
    leases: false,
    levels: &[],
};

type Writer = Arc<Mutex<dyn Write + Send>>;

/// Writes events to standard output, or to any other writer.
pub struct Stdout {
    writer: Writer,
    source: String,
    patience: Duration,
    stop: CancellationToken,
}

/// How far a batch has come, as both the writing thread and its caller see it.
#[derive(Default)]
struct Progress {
    written: AtomicUsize,
    cut: AtomicBool,
}

impl Stdout {
    /// How long a publish may take: half of it for those who write before, half for the lines. The
    /// lease and the drain must be longer.
    pub const LONGEST: Duration = Duration::from_secs(5);

    /// Writes to standard output. `source` says which outbox the events came from. After the stop
    /// no line is begun.
    pub fn new(source: &str, stop: CancellationToken) -> Stdout {
        Stdout { stop, ..Stdout::to(io::stdout(), source) }
    }

    /// Writes to `writer`.
    pub fn to(writer: impl Write + Send + 'static, source: &str) -> Stdout {
        let (writer, source) = (Arc::new(Mutex::new(writer)), source.to_owned());
        let (patience, stop) = (Stdout::LONGEST / 2, CancellationToken::new());
        Stdout { writer, source, patience, stop }
    }

    /// Writes to the same place, for the events of another outbox.
    #[must_use]
    pub fn of(&self, source: &str) -> Stdout {
        let (writer, stop) = (self.writer.clone(), self.stop.clone());
        Stdout { writer, source: source.to_owned(), patience: self.patience, stop }
    }

    fn line(&self, event: &Event) -> Result<String, Refusal> {
        let bad = |invalid| Refusal::Reject(Cause::new(Code::BadEvent, invalid));
        event.headers.check().map_err(bad)?;
        let envelope = Envelope::new(event, &self.source);
        Ok(envelope.structured(|bytes| STANDARD.encode(bytes)) + "\n")
    }

    async fn answer(&self, lines: Vec<String>) -> Vec<Answer> {
        let count = lines.len();
        let (written, end) = self.write(lines).await;
        let mut answers = vec![Ok(Receipt { broker_id: None }); written];
        if let Err(refusal) = end {
            // The line under way may yet be read; those behind it were not begun.
            let rest = match refusal {
                Refusal::Unknown(_) => Refusal::Held,
                ref down => down.clone(),
            };
            answers.push(Err(refusal));
            answers.resize(count, Err(rest));
        }
        // What a stop left unwritten was not begun either.
        answers.resize(count, Err(Refusal::Held));
        answers
    }

    /// Writes lines away from the runtime, because a pipe that nobody reads blocks. Returns how
    /// many were written, and why the next one was not.
    async fn write(&self, lines: Vec<String>) -> (usize, Result<(), Refusal>) {
        let Ok(mut writer) = timeout(self.patience, self.writer.clone().lock_owned()).await else {
            return (0, Err(down("nobody reads what was written before")));
        };
        let progress = Arc::new(Progress::default());
        let (seen, stop) = (progress.clone(), self.stop.clone());
        let writing = task::spawn_blocking(move || {
            for line in &lines {
                if progress.cut.load(Ordering::SeqCst) || stop.is_cancelled() {
                    return Ok(());
                }
                writer.write_all(line.as_bytes()).and_then(|()| writer.flush())?;
                progress.written.fetch_add(1, Ordering::SeqCst);
            }
            writer.flush()
        });
        let ended = timeout(self.patience, writing).await;
        seen.cut.store(true, Ordering::SeqCst);
        let end = match ended {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(down(&error.to_string())),
            Ok(Err(error)) => Err(down(&error.to_string())),
            Err(_) => Err(asleep()),
        };
        (seen.written.load(Ordering::SeqCst), end)
    }
}

#[async_trait]
impl Sink for Stdout {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let (mut lines, mut rejected) = (Vec::new(), Vec::new());
        for event in events {
            let line = self.line(event);
            rejected.push(line.map(|line| lines.push(line)).err());
        }
        let mut answers = self.answer(lines).await.into_iter();
        let mut next = || answers.next().expect("each line has an answer");
        rejected.into_iter().map(|refusal| refusal.map_or_else(&mut next, Err)).collect()
    }

    async fn probe(&self) -> Result<(), Refusal> {
        self.write(Vec::new()).await.1
    }
}

fn down(why: &str) -> Refusal {
    Refusal::Down(Cause::new(Code::SinkDown, format_args!("cannot write: {why}")))
}

fn asleep() -> Refusal {
    Refusal::Unknown(Cause::new(Code::SinkTimeout, "nobody read the line in time"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, BufWriter, PipeReader, Read, pipe};

    use tokio::time::advance;

    use super::*;

    fn events(count: usize) -> Vec<Event> {
        (0..count).map(|n| Event::new("t", "T", format!("{{\"n\": {n}}}")).key("k")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_event_is_one_line_that_is_there_when_its_receipt_is() {
        let (reader, writer) = pipe().unwrap();
        let stdout = Stdout::to(BufWriter::with_capacity(1 << 20, writer), "orders");
        let mut events = events(3);
        events[1].headers.0.insert("note".into(), "two\nlines".into());
        let answers = stdout.publish(&events).await;
        assert!(answers.iter().all(Result::is_ok) && answers.len() == 3);
        let mut lines = BufReader::new(reader).lines();
        for event in &events {
            let line = lines.next().unwrap().unwrap();
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["id"], event.id.to_string());
            assert_eq!(value["source"], "orders");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_outboxes_write_whole_lines_to_one_place_each_under_its_own_name() {
        let (reader, writer) = pipe().unwrap();
        let orders = Stdout::to(writer, "orders");
        let bills = orders.of("bills");
        let (first, second) = (events(50), events(50));
        let answers = tokio::join!(orders.publish(&first), bills.publish(&second));
        assert!(answers.0.iter().chain(&answers.1).all(Result::is_ok));
        drop((orders, bills));
        let mut sources = Vec::new();
        for line in BufReader::new(reader).lines() {
            let value: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            sources.push(value["source"].as_str().unwrap().to_owned());
        }
        // The one that came second waits for the first: batches are not mixed.
        assert_eq!(sources.len(), 100);
        assert!(sources[..50].iter().all(|source| *source == sources[0]), "{sources:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_whose_headers_clash_is_rejected_at_its_place() {
        let (_reader, writer) = pipe().unwrap();
        let mut events = events(3);
        for name in ["trace-id", "TraceId"] {
            events[1].headers.0.insert(name.into(), "1".into());
        }
        let answers = Stdout::to(writer, "orders").publish(&events).await;
        assert!(answers[0].is_ok() && answers[2].is_ok());
        let Err(Refusal::Reject(cause)) = &answers[1] else { panic!("{answers:?}") };
        assert_eq!(cause.code, Code::BadEvent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_pipe_is_down() {
        let (reader, writer) = pipe().unwrap();
        let stdout = Stdout::to(writer, "orders");
        stdout.probe().await.unwrap();
        drop(reader);
        for answer in stdout.publish(&events(2)).await {
            let Err(Refusal::Down(cause)) = answer else { panic!("{answer:?}") };
            assert_eq!(cause.code, Code::SinkDown);
        }
    }

    /// A writer that is full after some bytes, like a disk.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_before_an_error_has_its_receipt() {
        let events = events(5);
        let one = Envelope::new(&events[0], "orders").structured(|_| String::new()).len() + 1;
        let full = || Full(one * 3 - 1);
        let sinks = [Stdout::to(full(), "orders"), Stdout::to(BufWriter::new(full()), "orders")];
        for stdout in sinks {
            let answers = stdout.publish(&events).await;
            assert!(answers[..2].iter().all(Result::is_ok));
            assert!(answers[2..].iter().all(|answer| matches!(answer, Err(Refusal::Down(_)))));
            assert_eq!(answers.len(), 5);
        }
    }

    /// A line that no pipe holds as a whole.
    fn large() -> Event {
        Event::new("t", "T", "x".repeat(1 << 20))
    }

    /// Reads the first byte of a line and falls asleep; then the patience with it runs out.
    async fn fall_asleep(mut reader: PipeReader) -> PipeReader {
        let read = task::spawn_blocking(move || reader.read_exact(&mut [0]).map(|()| reader));
        let reader = read.await.unwrap().unwrap();
        lose_patience().await;
        reader
    }

    async fn lose_patience() {
        // Timers are rounded up.
        advance(Stdout::LONGEST / 2 + Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_sleeps_is_not_waited_for() {
        let (reader, writer) = pipe().unwrap();
        let stdout = Stdout::to(writer, "orders");
        let two = [large(), large()];
        let (answers, mut reader) = tokio::join!(stdout.publish(&two), fall_asleep(reader));
        assert!(
            matches!(&answers[0], Err(Refusal::Unknown(cause)) if cause.code == Code::SinkTimeout)
        );
        assert_eq!(answers[1], Err(Refusal::Held));
        let (probed, ()) = tokio::join!(stdout.probe(), lose_patience());
        assert!(matches!(probed, Err(Refusal::Down(_))), "the line still blocks");

        let read = task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all.iter().filter(|byte| **byte == b'\n').count())
        });
        stdout.probe().await.unwrap();
        drop(stdout);
        assert_eq!(read.await.unwrap().unwrap(), 1, "what was held was not written after all");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_sleeps_is_waited_for_no_longer_than_the_longest_publish() {
        let (reader, writer) = pipe().unwrap();
        let stdout = Stdout::to(writer, "orders");
        assert_eq!(stdout.patience * 2, Stdout::LONGEST);
        // The first waits for its reader, the second for the first and then not for a reader.
        let (second, event) = (stdout.of("bills"), [large()]);
        let publishes = async { tokio::join!(stdout.publish(&event), second.publish(&event)) };
        let (answers, _reader) = tokio::join!(publishes, fall_asleep(reader));
        assert!(matches!(&answers.0[0], Err(Refusal::Unknown(_))), "{answers:?}");
        assert!(matches!(&answers.1[0], Err(Refusal::Down(_))), "{answers:?}");
    }

    /// A writer whose first line stops the relay.
    struct Last(CancellationToken);

    impl Write for Last {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.cancel();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stop_the_line_under_way_is_finished_and_no_other_is_begun() {
        let stop = CancellationToken::new();
        let stdout = Stdout { stop: stop.clone(), ..Stdout::to(Last(stop), "orders") };
        let answers = stdout.publish(&events(3)).await;
        assert!(answers[0].is_ok(), "{answers:?}");
        assert_eq!(answers[1..], [Err(Refusal::Held), Err(Refusal::Held)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_dawdles_does_not_stop_the_runtime() {
        let (mut reader, writer) = pipe().unwrap();
        let stdout = Stdout::to(writer, "orders");
        let publish = async move {
            let answers = stdout.publish(&[large()]).await;
            drop(stdout);
            answers
        };
        let read = task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all.len())
        });
        let (answers, read) = tokio::join!(publish, read);
        assert!(answers[0].is_ok() && read.unwrap().unwrap() > 1 << 20);
    }
}
