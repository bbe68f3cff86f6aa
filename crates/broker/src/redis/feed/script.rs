//! The scripts that end, keep and bury an entry: each does nothing when the entry is no longer its
//! consumer's.

use std::time::Duration;

use event::Cause;
use redis::{Cmd, cmd};

use super::super::dead_stream;
use super::super::entry::Fields;

/// An entry that is a consumer's, and all that it holds.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) stream: String,
    pub(super) group: String,
    pub(super) consumer: String,
    pub(super) id: String,
    pub(super) fields: Fields,
}

/// Returns 0 unless the entry is this consumer's: the beginning of every script.
const MINE: &str = "\
local held = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)
if #held == 0 or held[1][2] ~= ARGV[2] then return 0 end
";

/// Ends an entry.
pub(super) fn ack(ticket: &Ticket) -> Cmd {
    begin("redis.call('XACK', KEYS[1], ARGV[1], ARGV[3]) return 1", ticket, None)
}

/// Sets for how long an entry counts as untouched; the count of its deliveries stays.
pub(super) fn renew(ticket: &Ticket, idle: Duration) -> Cmd {
    let words = "\
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'IDLE', ARGV[4], 'JUSTID') return 1";
    let mut renewing = begin(words, ticket, None);
    renewing.arg(millis(idle));
    renewing
}

/// Puts a copy where the dead of its stream are kept, and ends the entry.
pub(super) fn bury(ticket: &Ticket, origin: &str, cause: &Cause) -> Cmd {
    let words = "\
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 4))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3]) return 1";
    let mut burying = begin(words, ticket, Some(&dead_stream(&ticket.stream)));
    for (name, value) in &ticket.fields {
        burying.arg(name).arg(value);
    }
    burying.arg("dead_code").arg(cause.code.as_str()).arg("dead_detail").arg(&cause.detail);
    burying.arg("dead_group").arg(&ticket.group).arg("dead_origin").arg(origin);
    burying
}

/// Leaves a group. A consumer that has anything left stays known, for others to take it.
pub(super) fn leave(stream: &str, group: &str, consumer: &str) -> Cmd {
    const WORDS: &str = "\
local held = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if #held > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])";
    let mut leaving = cmd("EVAL");
    leaving.arg(WORDS).arg(1).arg(stream).arg(group).arg(consumer);
    leaving
}

fn begin(words: &str, ticket: &Ticket, other: Option<&str>) -> Cmd {
    let mut script = cmd("EVAL");
    script.arg(format!("{MINE}{words}")).arg(1 + usize::from(other.is_some()));
    script.arg(&ticket.stream).arg(other);
    script.arg(&ticket.group).arg(&ticket.consumer).arg(&ticket.id);
    script
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX >> 1)
}
