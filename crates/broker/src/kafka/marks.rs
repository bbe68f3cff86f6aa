//! What a group remembers of a partition: the offset up to which all is ended, and which of the
//! later ones are ended too.
//!
//! Kafka keeps one offset per partition and group. The rest goes into the text that may stand
//! beside it, so that an ack is for good even if an earlier event of another key is not ended.
//! Whoever does not know the text starts at the offset, and gets some events again.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

const WORD: &str = "postbox1:";

/// How far the ends may lie apart. A broker takes 4096 bytes of text.
pub(super) const WINDOW: i64 = 8192;

/// Where a group is in one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Everything before is ended.
    pub(super) offset: i64,
    /// Later ones that are ended.
    pub(super) ended: BTreeSet<i64>,
}

impl Mark {
    /// Writes the text beside the offset. What is too far away for it comes again.
    pub(super) fn text(&self) -> String {
        let near = self.ended.iter().map(|offset| offset - self.offset);
        let near: Vec<usize> = near
            .filter(|apart| (0..WINDOW).contains(apart))
            .filter_map(|apart| usize::try_from(apart).ok())
            .collect();
        let Some(last) = near.last() else { return String::new() };
        let mut bits = vec![0_u8; last / 8 + 1];
        for apart in &near {
            bits[apart / 8] |= 1 << (apart % 8);
        }
        format!("{WORD}{}", STANDARD_NO_PAD.encode(bits))
    }

    /// Reads what was written, by whomever: what is not ours says nothing.
    pub(super) fn read(offset: i64, text: &str) -> Mark {
        let bits = text.strip_prefix(WORD).and_then(|bits| STANDARD_NO_PAD.decode(bits).ok());
        let bits = bits.unwrap_or_default();
        let set = |apart: &usize| bits[apart / 8] & (1 << (apart % 8)) != 0;
        let ended = (0..bits.len() * 8).filter(set);
        let ended = ended.filter_map(|apart| Some(offset + i64::try_from(apart).ok()?)).collect();
        Mark { offset, ended }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            offset in 0_i64..1 << 60,
            apart in proptest::collection::btree_set(0..WINDOW, 0..50),
        ) {
            let ended = apart.into_iter().map(|apart| offset + apart).collect();
            let mark = Mark { offset, ended };
            let text = mark.text();
            prop_assert!(text.len() < 4096);
            prop_assert_eq!(Mark::read(offset, &text), mark);
        }
    }

    #[test]
    fn what_others_wrote_says_nothing() {
        for text in ["", "consumer-1", "postbox1:?", "postbox2:AQ"] {
            let none = Mark { offset: 7, ended: BTreeSet::new() };
            assert_eq!(Mark::read(7, text), none, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_far_away_is_left_out() {
        let mark = Mark { offset: 7, ended: [8, 7 + WINDOW].into() };
        assert_eq!(Mark::read(7, &mark.text()).ended, [8].into());
    }
}
