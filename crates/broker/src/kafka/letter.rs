//! Words of Kafka's own protocol: what is asked, and what is left to read of an answer.
//!
//! It knows no call. Whatever an answer holds, reading it ends, never panics, and makes nothing
//! that is much larger than the answer.

use std::io::{Error, ErrorKind, Result};

/// What Kafka says of a group that is gone, or that keeps other books.
const GROUP_GONE: i16 = 69;

/// What is asked.
#[derive(Debug, Default)]
pub(super) struct Letter(pub(super) Vec<u8>);

impl Letter {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn short(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn long(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn number(&mut self, value: i64) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn count(&mut self, count: usize) {
        self.long(i32::try_from(count).unwrap_or(i32::MAX));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.short(i16::try_from(text.len()).unwrap_or(i16::MAX));
        self.0.extend(text.as_bytes());
    }
}

/// What is left to read of an answer.
#[derive(Debug)]
pub(super) struct Answer<'a>(pub(super) &'a [u8]);

impl<'a> Answer<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads so many bytes.
    pub(super) fn part(&mut self, length: usize) -> Result<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length).ok_or(ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(part)
    }

    pub(super) fn short(&mut self) -> Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn number(&mut self) -> Result<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// Reads a text; none is an empty one.
    pub(super) fn text(&mut self) -> Result<String> {
        let length = usize::try_from(self.short()?).unwrap_or_default();
        Ok(String::from_utf8_lossy(self.part(length)?).into_owned())
    }

    /// Reads bytes; none are no bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.long()?).unwrap_or_default();
        self.part(length)
    }

    /// Reads a number that takes only as many bytes as it needs.
    fn lean(&mut self) -> Result<usize> {
        let mut value = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let [byte] = self.take()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let value = u32::try_from(value).ok().and_then(|value| value.try_into().ok());
                return value.ok_or_else(|| ErrorKind::InvalidData.into());
            }
        }
        Err(ErrorKind::InvalidData.into())
    }

    /// Reads how many follow, as newer calls write it; no list is an empty one.
    pub(super) fn lean_count(&mut self) -> Result<usize> {
        Ok(self.lean()?.saturating_sub(1))
    }

    /// Reads the bytes of a text as newer calls write them; none is an empty one.
    pub(super) fn lean_text(&mut self) -> Result<&'a [u8]> {
        let length = self.lean_count()?;
        self.part(length)
    }

    /// Passes over what a broker may add to newer calls.
    pub(super) fn extras(&mut self) -> Result<()> {
        for _ in 0..self.lean()? {
            let _which = self.lean()?;
            let length = self.lean()?;
            self.part(length)?;
        }
        Ok(())
    }

    /// Reads an error code, which is none.
    pub(super) fn fine(&mut self) -> Result<()> {
        match self.short()? {
            0 => Ok(()),
            GROUP_GONE => Err(ErrorKind::NotFound.into()),
            code => Err(Error::other(format!("error {code} of Kafka"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_lean_number_has_at_most_32_bits() {
        let read = |bytes: &[u8]| Answer(bytes).lean().map_err(|error| error.kind());
        assert_eq!(read(&[0]), Ok(0));
        assert_eq!(read(&[0xac, 0x02]), Ok(300));
        assert_eq!(read(&[255, 255, 255, 255, 15]), Ok(u32::MAX as usize));
        assert_eq!(read(&[255, 255, 255, 255, 16]), Err(ErrorKind::InvalidData));
        assert_eq!(read(&[128, 128, 128, 128, 128, 0]), Err(ErrorKind::InvalidData));
        assert_eq!(read(&[128]), Err(ErrorKind::UnexpectedEof));
    }

    #[test]
    fn what_a_broker_adds_is_passed_over() {
        let mut answer = Answer(&[2, 0, 3, 9, 9, 9, 200, 1, 0, 7]);
        answer.extras().unwrap();
        assert_eq!(answer.0, [7]);
        assert!(Answer(&[1, 0, 3, 9]).extras().is_err());
    }

    #[test]
    fn a_lean_text_may_be_missing() {
        assert_eq!(Answer(&[3, b'h', b'i', 9]).lean_text().unwrap(), b"hi");
        assert_eq!(Answer(&[0]).lean_text().unwrap(), b"");
        assert!(Answer(&[4, b'h', b'i']).lean_text().is_err());
    }
}
