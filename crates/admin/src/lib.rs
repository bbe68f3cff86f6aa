//! The only crate that serves HTTP and HTML: the JSON API, the console, the metrics and health.
//!
//! It never speaks SQL and never knows a broker: rows come through `event::Catalog`, the relay's
//! pulse through `event::Pulse`. A GET never changes anything, and a payload leaves only when it is
//! asked for by name.

mod api;
mod app;
mod assets;
mod export;
mod gate;
mod hosts;
mod live;
mod markdown;
mod openapi;
mod pages;
mod problem;
mod requeue;
mod routes;
mod search;
mod serve;
mod session;
mod show;
mod tries;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;

use event::{Catalog, Pulse, Secret};
use thiserror::Error;

pub use openapi::openapi;
pub use routes::router;
pub use serve::serve;

/// What the console shows.
pub struct Console {
    /// The outboxes by name, in the order in which they are shown.
    pub outboxes: Vec<(String, Arc<dyn Catalog>)>,
    /// The relay of this process.
    pub pulse: Arc<dyn Pulse>,
    /// Tells why the process is not ready, for `/readyz`; no reason is ready. That page needs no
    /// token, so these are names and codes and nothing else.
    pub unready: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
}

/// Who may see it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The token that opens it. Without one, only a loopback listener is served.
    pub token: Option<Secret>,
    /// Names that the `Host` header may carry beside loopback and the listener's own address.
    pub hosts: Vec<String>,
}

/// How many characters a token has at least. Sessions are signed with it, so whoever sees one may
/// guess at leisure: sixteen random letters and digits take longer than anyone has.
const LEAST: usize = 16;

/// Refuses a token that could be guessed.
pub fn check_token(token: &Secret) -> Result<(), AdminError> {
    match token.reveal().chars().count() {
        LEAST.. => Ok(()),
        _ => Err(AdminError::ShortToken),
    }
}

/// Why the console is not served.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Anyone who reaches the address could read and requeue events.
    #[error(
        "refusing to serve the console on {0} without a token: \
         set one, or listen on a loopback address such as 127.0.0.1"
    )]
    Open(SocketAddr),
    /// A short token can be guessed, also from a session that it signed.
    #[error(
        "the console's token is shorter than {LEAST} characters: set a random one, for example \
         from `openssl rand -hex 16`, or none on loopback"
    )]
    ShortToken,
    /// The listener has no address.
    #[error("the console's listener has no address: {0}")]
    Listener(#[from] std::io::Error),
}
