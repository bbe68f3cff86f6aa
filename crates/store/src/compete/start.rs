//! Where a relay looks first. Relays that look elsewhere seldom meet.

/// Where one lane's next look begins.
#[derive(Debug)]
pub(crate) struct Start {
    next: u16,
}

impl Start {
    /// Begins anywhere.
    pub(crate) fn anywhere() -> Start {
        Start { next: fastrand::u16(..) }
    }

    /// Returns the shards in the order of the next look: each look begins one further on, so no
    /// shard is always the last.
    pub(crate) fn turn(&mut self, shards: u16) -> impl Iterator<Item = u16> + use<> {
        let first = self.next % shards;
        self.next = self.next.wrapping_add(1);
        (first..shards).chain(0..first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_is_looked_at_and_each_comes_first_in_its_turn() {
        let mut start = Start { next: u16::MAX - 1 };
        let mut firsts = Vec::new();
        for _ in 0..4 {
            let mut order: Vec<u16> = start.turn(4).collect();
            firsts.push(order[0]);
            order.sort();
            assert_eq!(order, [0, 1, 2, 3]);
        }
        assert_eq!(firsts, [2, 3, 0, 1]);
    }
}
