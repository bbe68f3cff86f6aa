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
