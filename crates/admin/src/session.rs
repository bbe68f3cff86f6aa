//! Who is asking: the token, the session that it opens, and the value that ties a form to a
//! session. Nothing is remembered here; all of it is derived from the token, so no session can be
//! ended before its time but with all others, by another token.

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use event::{Millis, Secret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// The session cookie's name.
pub(crate) const COOKIE: &str = "postbox_session";

/// How long a session lasts, in seconds.
pub(crate) const LASTS: i64 = 12 * 60 * 60;

/// How a request proved itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// No token is set: whoever reaches the loopback listener.
    Anyone,
    /// The token itself, in the `Authorization` header. No browser adds that by itself.
    Bearer,
    /// A session that the token opened.
    Session(String),
}

/// Opens sessions and recognises them.
pub(crate) struct Sessions {
    token: Option<Secret>,
    key: [u8; 32],
}

impl Sessions {
    /// Takes the token, if one is set.
    pub(crate) fn new(token: Option<Secret>) -> Sessions {
        let mut key = [0; 32];
        key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Sessions { token, key }
    }

    /// Tells whether a token is set.
    pub(crate) fn closed(&self) -> bool {
        self.token.is_some()
    }

    /// Tells whether this is the token, in a time that does not depend on where it differs.
    pub(crate) fn opens(&self, given: &str) -> bool {
        let Some(token) = self.token.as_ref().filter(|token| !token.reveal().is_empty()) else {
            return false;
        };
        let (left, right) = (self.sign(&["token", given]), self.sign(&["token", token.reveal()]));
        left.as_bytes().ct_eq(right.as_bytes()).into()
    }

    /// Returns the token that a request carries in its `Authorization` header.
    pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    /// Opens a session.
    pub(crate) fn open(&self, now: Millis) -> String {
        let until = (now.0 / 1000 + LASTS).to_string();
        let mark = self.mark(&until);
        format!("{until}.{mark}")
    }

    /// Finds the live session of a request's cookies.
    pub(crate) fn find(&self, headers: &HeaderMap, now: Millis) -> Option<Who> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let value = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(name, value)| (name == COOKIE).then_some(value))?;
        let (until, mark) = value.split_once('.')?;
        let live = until.parse::<i64>().is_ok_and(|until| now.0 / 1000 < until);
        let ours: bool = self.mark(until).as_bytes().ct_eq(mark.as_bytes()).into();
        (live && ours).then(|| Who::Session(value.to_string()))
    }

    /// Returns the value that a form of this visitor carries.
    pub(crate) fn form_value(&self, who: &Who) -> String {
        match who {
            Who::Session(session) => self.sign(&["form", session]),
            Who::Anyone | Who::Bearer => self.sign(&["form"]),
        }
    }

    /// Tells whether a form carries the visitor's value.
    pub(crate) fn form_is(&self, who: &Who, given: &str) -> bool {
        self.form_value(who).as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Signs an expiry with the token, so that sessions outlive a restart and end with the token.
    fn mark(&self, until: &str) -> String {
        let key = self.token.as_ref().map_or(&self.key[..], |token| token.reveal().as_bytes());
        sign(key, &["postbox-session", until])
    }

    fn sign(&self, parts: &[&str]) -> String {
        sign(&self.key, parts)
    }
}

fn sign(key: &[u8], parts: &[&str]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is taken");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn cookie(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let line = format!("other=1; {COOKIE}={value}");
        headers.insert(header::COOKIE, HeaderValue::from_str(&line).unwrap());
        headers
    }

    #[test]
    fn a_session_ends_with_its_time_and_with_its_token() {
        let sessions = Sessions::new(Some(Secret::new("one")));
        let value = sessions.open(Millis(0));
        let headers = cookie(&value);
        assert_eq!(sessions.find(&headers, Millis(0)), Some(Who::Session(value.clone())));
        assert_eq!(sessions.find(&headers, Millis(LASTS * 1000)), None);
        let other = Sessions::new(Some(Secret::new("two")));
        assert_eq!(other.find(&headers, Millis(0)), None);
        let longer = value.replacen('4', "9", 1);
        assert_ne!(longer, value);
        assert_eq!(sessions.find(&cookie(&longer), Millis(0)), None);
    }

    #[test]
    fn only_the_token_opens_and_an_empty_one_never_does() {
        let sessions = Sessions::new(Some(Secret::new("canary")));
        assert!(sessions.opens("canary"));
        assert!(!sessions.opens("canarz") && !sessions.opens(""));
        assert!(!Sessions::new(Some(Secret::new(""))).opens(""));
        assert!(!Sessions::new(None).opens(""));
    }

    #[test]
    fn a_form_value_belongs_to_one_session() {
        let sessions = Sessions::new(Some(Secret::new("one")));
        let (mine, other) = (Who::Session("1.a".into()), Who::Session("2.b".into()));
        assert!(sessions.form_is(&mine, &sessions.form_value(&mine)));
        assert!(!sessions.form_is(&other, &sessions.form_value(&mine)));
        assert!(!sessions.form_is(&Who::Anyone, ""));
    }
}
