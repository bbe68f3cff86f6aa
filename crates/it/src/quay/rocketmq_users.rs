//! Who is let in at a RocketMQ that asks for keys, and how that is changed while it runs.

use std::sync::Arc;

use anyhow::Result;
use broker::manner::Subscription;
use broker::rocketmq::{Access, RocketMqFeed};
use event::Secret;
use serde_json::json;

use super::rocketmq::RocketMqQuay;
use super::{Stray, WRONG};

/// The user of a broker that asks for one, and its secret.
pub(super) const USER: &str = "postbox";
pub(super) const SECRET: &str = "s3cret-of-the-broker";

/// What lets a broker ask who comes.
pub(super) const GUARDED: &[&str] = &[
    "broker.authenticationEnabled=true",
    "broker.authenticationProvider=org.apache.rocketmq.auth.authentication.provider.\
     DefaultAuthenticationProvider",
    "broker.authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.\
     LocalAuthenticationMetadataProvider",
    "broker.initAuthenticationUser={\"username\":\"postbox\",\"password\":\
     \"s3cret-of-the-broker\"}",
    "broker.innerClientAuthenticationCredentials={\"accessKey\":\"postbox\",\"secretKey\":\
     \"s3cret-of-the-broker\"}",
    "proxy.authenticationEnabled=true",
    "proxy.authenticationProvider=org.apache.rocketmq.auth.authentication.provider.\
     DefaultAuthenticationProvider",
    "proxy.authenticationMetadataProvider=org.apache.rocketmq.proxy.auth.\
     ProxyAuthenticationMetadataProvider",
    "proxy.innerClientAuthenticationCredentials={\"accessKey\":\"postbox\",\"secretKey\":\
     \"s3cret-of-the-broker\"}",
];

const MAKE_USER: i32 = 3001;
const CHANGE_USER: i32 = 3002;

/// The user of whom only the server knows the secret.
const STRANGER: &str = "stranger";

/// Joins a group with a wrong secret.
pub(super) async fn strange_feed(quay: &RocketMqQuay, wants: Subscription) -> Result<Stray> {
    write(quay, MAKE_USER, "as-the-test-says").await?;
    let keys = Some((STRANGER.to_owned(), Secret::new(WRONG)));
    let access = Access { keys, ..quay.access.clone() };
    let feed = RocketMqFeed::new(&access, wants).map_err(anyhow::Error::msg)?;
    Ok((None, Arc::new(feed)))
}

/// Makes that secret the right one.
pub(super) async fn admit(quay: &RocketMqQuay) -> Result<()> {
    write(quay, CHANGE_USER, WRONG).await
}

async fn write(quay: &RocketMqQuay, call: i32, secret: &str) -> Result<()> {
    let user = json!({
        "username": STRANGER, "password": secret, "userType": "Super", "userStatus": "enable",
    });
    quay.broker.ask(call, &[("username", STRANGER)], user.to_string().as_bytes()).await?;
    Ok(())
}
