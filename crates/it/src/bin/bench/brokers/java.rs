//! A producer in Java, which is warm before it is measured.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tokio::task::spawn_blocking;

/// One that waits for its sign.
pub(super) struct Producer {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Producer {
    /// Starts it, and returns when it is warm.
    pub(super) async fn start(mut command: Command) -> Result<Producer> {
        spawn_blocking(move || {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().context("java does not start")?;
            let lines = BufReader::new(child.stdout.take().context("it has an output")?);
            let mut producer = Producer { child, lines };
            producer.says("ready")?;
            Ok(producer)
        })
        .await?
    }

    /// Lets it publish, and returns when it has.
    pub(super) async fn publish(mut self) -> Result<()> {
        spawn_blocking(move || {
            let mut sign = self.child.stdin.take().context("it has an input")?;
            sign.write_all(b"\n")?;
            self.says("done")
        })
        .await?
    }

    fn says(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        ensure!(line.trim() == word, "the producer in Java says {line:?}, not {word:?}");
        Ok(())
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // It has nothing more to say.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
