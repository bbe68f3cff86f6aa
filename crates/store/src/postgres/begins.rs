//! Where a lane's looks at hot rows begin, as the statements take it.

use super::rows::number;
use crate::own::{Begun, Desk, Mark};

/// Transactions whose end shows more, as the statements take them: in which shard, whether it is
/// one or any that is as new, and from where on.
#[derive(Default)]
pub(super) struct Open {
    pub(super) shards: Vec<i16>,
    pub(super) xids: Vec<String>,
    pub(super) wide: Vec<bool>,
    pub(super) from: Vec<i64>,
}

impl Open {
    pub(super) fn add(&mut self, shard: u16, late: impl Iterator<Item = Begun>) {
        for begun in late {
            self.shards.push(number(shard));
            self.xids.push(begun.first.to_string());
            self.wide.push(begun.is_wide());
            self.from.push(begun.from);
        }
    }
}

/// Where a lane's looks at the hot rows of its shards begin, as the statements take it.
#[derive(Default)]
pub(super) struct Begins {
    pub(super) shards: Vec<i16>,
    pub(super) from: Vec<i64>,
    pub(super) open: Open,
    pub(super) mark: Mark,
}

impl Begins {
    pub(super) fn of(desk: &Desk, shards: &[u16]) -> Begins {
        let mut begins = Begins { mark: desk.mark, ..Begins::default() };
        for shard in shards {
            let cursor = desk.cursor(*shard);
            let sight = desk.known(*shard).map(|part| &part.sight);
            begins.shards.push(number(*shard));
            begins.from.push(sight.map_or(cursor, |sight| sight.from(cursor)));
            begins.open.add(*shard, sight.into_iter().flat_map(|sight| sight.late.open()));
        }
        begins
    }
}
