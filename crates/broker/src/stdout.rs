//! The sink `stdout`: one line of JSON per event, a structured CloudEvent.
//!
//! A receipt means that the line was written and flushed. It never buffers beyond an answer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use event::{Answer, Cause, Code, Envelope, Event, Receipt, Refusal, Sink};
use tokio::task;

type Writer = Arc<Mutex<dyn Write + Send>>;

/// Writes events to standard output, or to any other writer.
pub struct Stdout {
    writer: Writer,
    source: String,
}

impl Stdout {
    /// Writes to standard output. `source` says which outbox the events came from.
    pub fn new(source: &str) -> Stdout {
        Stdout::to(io::stdout(), source)
    }

    /// Writes to `writer`.
    pub fn to(writer: impl Write + Send + 'static, source: &str) -> Stdout {
        Stdout { writer: Arc::new(Mutex::new(writer)), source: source.to_owned() }
    }

    /// Writes lines away from the runtime, because a pipe that nobody reads blocks. Returns how
    /// many were written, and what stopped the rest.
    async fn write(&self, lines: Vec<String>) -> (usize, io::Result<()>) {
        let writer = Arc::clone(&self.writer);
        let written = task::spawn_blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            for (count, line) in lines.iter().enumerate() {
                if let Err(error) = writer.write_all(line.as_bytes()).and_then(|()| writer.flush())
                {
                    return (count, Err(error));
                }
            }
            (lines.len(), writer.flush())
        });
        written.await.unwrap_or_else(|error| (0, Err(io::Error::other(error))))
    }
}

#[async_trait]
impl Sink for Stdout {
    async fn publish(&self, events: &[Event]) -> Vec<Answer> {
        let line = |event| {
            Envelope::new(event, &self.source).structured(|bytes| STANDARD.encode(bytes)) + "\n"
        };
        let (written, end) = self.write(events.iter().map(line).collect()).await;
        let mut answers = vec![Ok(Receipt { broker_id: None }); written];
        if let Err(error) = end {
            answers.resize(events.len(), Err(down(&error)));
        }
        answers
    }

    async fn probe(&self) -> Result<(), Refusal> {
        let (_, end) = self.write(Vec::new()).await;
        end.map_err(|error| down(&error))
    }
}

fn down(error: &io::Error) -> Refusal {
    Refusal::Down(Cause::new(Code::SinkDown, format_args!("cannot write: {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, BufWriter, Read, pipe};

    use super::*;

    fn events(count: usize) -> Vec<Event> {
        (0..count).map(|n| Event::new("t", "T", format!("{{\"n\": {n}}}")).key("k")).collect()
    }

    #[tokio::test]
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

    #[tokio::test]
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

    #[tokio::test]
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

    #[tokio::test]
    async fn a_reader_that_dawdles_does_not_stop_the_runtime() {
        let (mut reader, writer) = pipe().unwrap();
        let stdout = Stdout::to(writer, "orders");
        let large = [Event::new("t", "T", "x".repeat(1 << 20))];
        let publish = async move {
            let answers = stdout.publish(&large).await;
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
