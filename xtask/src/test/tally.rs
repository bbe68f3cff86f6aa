//! Counting what cargo's test programs say of themselves, while they say it.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// Sums over the lines `test result: …`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) ignored: usize,
}

impl Tally {
    /// Runs a command, tells what it prints except about programs without tests, and counts.
    pub(super) fn follow(
        &mut self,
        command: &mut Command,
        mut tell: impl FnMut(&str),
    ) -> Result<ExitStatus> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("cargo does not start")?;
        let out = child.stdout.take().context("cargo's output")?;
        for line in BufReader::new(out).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            let counted = self.count(&line);
            if !line.is_empty() && line != "running 0 tests" && counted != Some(0) {
                tell(&line);
            }
        }
        child.wait().context("cargo test")
    }

    /// Adds what another counted.
    pub(super) fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Adds a line and returns how many tests it told of, when it is a result.
    fn count(&mut self, line: &str) -> Option<usize> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut told = 0;
        for part in counts.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => continue,
            }
            told += number;
        }
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_and_other_lines_are_not() {
        let mut tally = Tally::default();
        let rest = "0 measured; 4 filtered out; finished in 0.07s";
        let line = format!("test result: FAILED. 12 passed; 2 failed; 1 ignored; {rest}");
        assert_eq!(tally.count(&line), Some(15));
        let line = format!("test result: ok. 3 passed; 0 failed; 0 ignored; {rest}");
        assert_eq!(tally.count(&line), Some(3));
        assert_eq!(tally.count("running 5 tests"), None);
        assert_eq!(tally, Tally { passed: 15, failed: 2, ignored: 1 });
    }
}
