//! RocketMQ 4, which has no proxy: all that it speaks is the old protocol.

use super::rocketmq::{Ports, RocketMq};

/// The last RocketMQ 4 whose servers were published, and the last of its clients.
pub(super) const FOUR: RocketMq = RocketMq {
    name: "rocketmq-4",
    version: "4.9.7",
    jars: &[
        "org.apache.rocketmq:rocketmq-namesrv:4.9.7",
        "org.apache.rocketmq:rocketmq-broker:4.9.7",
    ],
    client: &["org.apache.rocketmq:rocketmq-client:4.9.8", "org.slf4j:slf4j-nop:1.7.36"],
    // It was made for Java 8: one that was killed does not start again without these.
    jvm: &[
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    ],
    logback: "ch.qos.logback",
    scheme: "rocketmq+remoting",
    // Whatever it is told, it takes the port above its own for copies.
    ports: Ports { names: 0, broker: 4, below: 2, copies: 5, proxy: [1, 3] },
    ready: "The broker[",
};
