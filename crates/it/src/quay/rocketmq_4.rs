//! RocketMQ 4, which has no proxy: events go to its broker, and are read from its queues.

use event::Secret;

use super::rocketmq::{own_of, shared_of};
use super::rocketmq_remoting::RemotingQuay;
use super::rocketmq_users::{SECRET, USER};

/// What the world calls it.
const SERVER: &str = "rocketmq-4";

/// What lets a broker ask who comes, make no topic by itself, and take nothing large.
const STRICT: &[&str] = &[
    "broker.autoCreateTopicEnable=false",
    "broker.autoCreateSubscriptionGroup=false",
    "broker.maxMessageSize=65536",
    "broker.aclEnable=true",
    "file.plain_acl.yml=accounts: \
     [{accessKey: postbox, secretKey: s3cret-of-the-broker, admin: true}, \
     {accessKey: reader-only, secretKey: s3cret-of-the-broker, defaultTopicPerm: SUB}]",
];

/// The user of a strict server that may not publish.
pub const READER: &str = "reader-only";

/// Uses the server of the world.
pub async fn shared() -> RemotingQuay {
    RemotingQuay::new(shared_of(SERVER))
}

/// Starts a server of its own.
pub async fn own() -> RemotingQuay {
    RemotingQuay::new(own_of(SERVER, &[], None).await)
}

/// Starts a server of its own that lets nobody in without a key, makes no topic and no group by
/// itself, and takes no event of more than 64 KiB. Its users have one secret.
pub async fn strict() -> RemotingQuay {
    let keys = Some((USER.to_owned(), Secret::new(SECRET)));
    RemotingQuay::new(own_of(SERVER, STRICT, keys).await)
}
