//! The management plugin's HTTP API: the only place where RabbitMQ tells what queues it has.
//!
//! Read only, and never in a turn.

use std::time::Duration;

use event::{Cause, Code, Refusal, Secret};
use reqwest::{Client, StatusCode, redirect};
use rustls::crypto::ring;
use serde_json::Value;
use url::Url;

use super::reach;
use crate::http::{chain, trust_nobody};

/// Queues that one page may have; the plugin allows no more.
const PAGE: usize = 500;

/// Pages at the most; beyond them, queues are asked for by name.
const PAGES: usize = 10;

/// Where the plugin listens, and who asks.
#[derive(Clone)]
pub(super) struct Management {
    client: Client,
    base: Url,
    user: String,
    password: Secret,
}

impl Management {
    /// Reads an address. Its error does not repeat it.
    pub(super) fn new(url: &Secret, timeout: Duration) -> Result<Management, Cause> {
        let invalid =
            |why: &str| Cause::new(Code::ConfigInvalid, format_args!("management: {why}"));
        let form = "it is not of the form http://USER:PASSWORD@HOST:PORT";
        let mut base: Url = url.reveal().parse().map_err(|_| invalid(form))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid(form));
        }
        let decoded = |text: &str| percent_decoded(text).ok_or_else(|| invalid(form));
        let user = decoded(base.username())?;
        let password = Secret::new(decoded(base.password().unwrap_or_default())?);
        if base.set_username("").and(base.set_password(None)).is_err() {
            return Err(invalid(form));
        }
        let builder = Client::builder()
            .user_agent(concat!("postbox/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(timeout);
        let builder = match base.scheme() {
            "http" => builder.tls_backend_preconfigured(trust_nobody()?),
            _ => {
                // Fails only if a provider is installed already, which then is the one to use.
                let _ = ring::default_provider().install_default();
                builder
            }
        };
        let client = builder.build().map_err(|error| invalid(&error.to_string()))?;
        Ok(Management { client, base, user, password })
    }

    /// Asks for one thing. `None` is what is not there.
    pub(super) async fn get(&self, path: &[&str], query: &str) -> Result<Option<Value>, Refusal> {
        let mut url = self.base.clone();
        let host = format!("{}:{}", url.host_str().unwrap_or_default(), port(&url));
        let down = |code, why: String| {
            Refusal::Down(Cause::new(code, format_args!("management at {host}: {why}")))
        };
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("api").extend(path);
        }
        url.set_query((!query.is_empty()).then_some(query));
        let request = self.client.get(url).basic_auth(&self.user, Some(self.password.reveal()));
        let failed = |error: reqwest::Error| down(Code::SinkDown, chain(&error.without_url()));
        let response = request.send().await.map_err(failed)?;
        match response.status() {
            StatusCode::NOT_FOUND => return Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let why =
                    "the user is refused: it needs the tag monitoring, and the right password";
                return Err(down(Code::AuthRefused, why.to_owned()));
            }
            status if !status.is_success() => {
                return Err(down(Code::SinkBroken, status.to_string()));
            }
            _ => {}
        }
        let body = response.bytes().await.map_err(failed)?;
        let read = serde_json::from_slice(&body);
        read.map(Some).map_err(|error| down(Code::SinkBroken, format!("no JSON: {error}")))
    }

    /// Asks for the queues of a virtual host, a page at a time. Tells whether these are all.
    pub(super) async fn queues(&self, vhost: &str) -> Result<(Vec<Value>, bool), Refusal> {
        let mut queues = Vec::new();
        for page in 1..=PAGES {
            let query = format!("page={page}&page_size={PAGE}&sort=name");
            let Some(mut answer) = self.get(&["queues", vhost], &query).await? else {
                return Ok((queues, true));
            };
            let pages = answer["page_count"].as_u64().unwrap_or(1);
            if let Value::Array(items) = answer["items"].take() {
                queues.extend(items);
            }
            if u64::try_from(page).is_ok_and(|page| page >= pages) {
                return Ok((queues, true));
            }
        }
        Ok((queues, false))
    }

    /// Asks for what begins at an exchange: its bindings, and where the rest goes.
    pub(super) async fn bindings(&self, vhost: &str, name: &str) -> Result<Vec<Value>, Refusal> {
        let path = ["exchanges", vhost, name, "bindings", "source"];
        let mut bindings = match self.get(&path, "").await? {
            Some(Value::Array(bindings)) => bindings,
            _ => Vec::new(),
        };
        let exchange = self.get(&path[..3], "").await?.unwrap_or_default();
        let rest = exchange["arguments"]["alternate-exchange"].as_str();
        bindings.extend(rest.map(reach::onward));
        Ok(bindings)
    }
}

fn port(url: &Url) -> u16 {
    url.port_or_known_default().unwrap_or_default()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(2);

    #[test]
    fn an_address_is_read_with_its_user_and_a_wrong_one_is_not_repeated() {
        let url = Secret::new("http://me:p%40ss%25@127.0.0.1:15672/rabbit");
        let read = Management::new(&url, SOON).unwrap();
        assert_eq!((read.user.as_str(), read.password.reveal()), ("me", "p@ss%"));
        assert_eq!(read.base.as_str(), "http://127.0.0.1:15672/rabbit");
        for wrong in ["", "canary", "amqp://u:canary@h", "http://u:canary%zz@h"] {
            let cause = Management::new(&Secret::new(wrong), SOON).map(drop).unwrap_err();
            assert!(!cause.detail.contains("canary"), "{cause}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_down_and_no_secret_is_told() {
        let url = Secret::new("http://me:canary@127.0.0.1:1");
        let management = Management::new(&url, SOON).unwrap();
        let refusal = management.get(&["overview"], "").await.unwrap_err();
        let Refusal::Down(cause) = refusal else { panic!("{refusal:?}") };
        assert!(!cause.detail.contains("canary") && cause.detail.contains("127.0.0.1:1"));
    }
}
