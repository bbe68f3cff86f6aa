//! How relays share the shards: nobody keeps more than a fair share while others have less.
//!
//! Who gets a shard is decided by rendezvous hashing, so relays agree without talking, and a relay
//! that comes or goes moves few shards.

use std::collections::HashMap;

/// A live relay and how many shards it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) shards: usize,
}

/// Says which of its shards a relay gives away, and to whom. `all` is how many shards there are.
pub(crate) fn heirs(
    me: &str,
    mine: &[u16],
    members: &[Member],
    all: usize,
) -> HashMap<u16, String> {
    let mut others: Vec<Member> =
        members.iter().filter(|member| member.name != me).cloned().collect();
    let fair = all.div_ceil(others.len() + 1);
    let mut given = HashMap::new();
    let mut mine = mine.to_vec();
    // What fits me least goes first.
    mine.sort_by_key(|shard| weight(me, *shard));
    for shard in mine.iter().take(mine.len().saturating_sub(fair)) {
        let room = others.iter_mut().filter(|member| member.shards < fair);
        let Some(heir) = room.max_by_key(|member| weight(&member.name, *shard)) else { break };
        heir.shards += 1;
        given.insert(*shard, heir.name.clone());
    }
    given
}

/// Weighs a relay for a shard. Every relay must come to the same number: FNV-1a, then a mix.
fn weight(relay: &str, shard: u16) -> u64 {
    let bytes = relay.bytes().chain(shard.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, shards: usize) -> Member {
        Member { name: name.to_owned(), shards }
    }

    #[test]
    fn a_relay_that_is_alone_keeps_everything() {
        let mine: Vec<u16> = (0..16).collect();
        assert!(heirs("a", &mine, &[member("a", 16)], 16).is_empty());
        assert!(heirs("a", &[0], &[member("a", 1), member("b", 0)], 1).is_empty());
    }

    #[test]
    fn what_is_more_than_a_fair_share_goes_to_those_who_have_less() {
        let mine: Vec<u16> = (0..16).collect();
        let members = [member("a", 16), member("b", 0), member("c", 0)];
        let given = heirs("a", &mine, &members, 16);
        assert_eq!(given.len(), 10);
        for name in ["b", "c"] {
            assert!(given.values().filter(|heir| *heir == name).count() <= 6);
        }
        let full = [member("a", 8), member("b", 8)];
        assert!(heirs("a", &mine[..8], &full, 16).is_empty());
    }
}
