//! RocketMQ 5 that asks not only who comes, but for what rights.

use serde_json::json;

use super::rocketmq::guarded_with;
use super::rocketmq_remoting::RemotingQuay;

/// What lets a broker look for rights.
const AUTHORIZING: &[&str] = &[
    "broker.authorizationEnabled=true",
    "broker.authorizationProvider=org.apache.rocketmq.auth.authorization.provider.\
     DefaultAuthorizationProvider",
    "broker.authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.\
     LocalAuthorizationMetadataProvider",
    "proxy.authorizationEnabled=true",
    "proxy.authorizationProvider=org.apache.rocketmq.auth.authorization.provider.\
     DefaultAuthorizationProvider",
    "proxy.authorizationMetadataProvider=org.apache.rocketmq.proxy.auth.\
     ProxyAuthorizationMetadataProvider",
];

/// The user who is known and has no right to anything.
pub const RIGHTLESS: &str = "rightless";

const MAKE_USER: i32 = 3001;

/// Starts a server of its own that has such a user, with the secret of the other.
pub async fn own() -> RemotingQuay {
    let quay = RemotingQuay::new(guarded_with(AUTHORIZING).await);
    let (_, secret) = quay.whole.access.keys.as_ref().expect("it asks for keys");
    let user = json!({
        "username": RIGHTLESS, "password": secret.reveal(), "userType": "Normal",
    });
    let named = [("username", RIGHTLESS)];
    let made = quay.whole.broker.ask(MAKE_USER, &named, user.to_string().as_bytes()).await;
    made.expect("a user is made");
    quay
}
