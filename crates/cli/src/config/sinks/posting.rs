//! What an HTTP sink would refuse, asked for one key at a time, so that a mistake has a line.
//!
//! Nothing is connected, and no certificate is read.

use broker::http::{Http, Options};
use broker::webhook;
use event::Code;
use url::{Host, ParseError};

use super::super::sealed::Sealed;

/// Checks where a sink posts to.
pub(super) fn check_url(text: &str, allow_private: bool) -> Result<(), String> {
    const BEGIN: &str = "it must begin with http:// or https://";
    const PRIVATE: &str =
        "it leads to an address that is not public; if that is meant, add `allow_private = true`";
    let mut url = match url::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        Ok(_) | Err(ParseError::RelativeUrlWithoutBase) => return Err(BEGIN.to_owned()),
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    let here = |name: &str| name == "localhost" || name.ends_with(".localhost");
    if !allow_private && matches!(url.host(), Some(Host::Domain(name)) if here(name)) {
        return Err(PRIVATE.to_owned());
    }
    // The rules for a url are the same without TLS, and then need no certificates of this machine.
    url.set_scheme("http").map_err(|()| BEGIN.to_owned())?;
    let options = Options { allow_private, ..Options::new(url, "check") };
    match Http::new(options) {
        Ok(_) => Ok(()),
        Err(cause) if cause.code == Code::AddressRefused => Err(PRIVATE.to_owned()),
        Err(cause) => Err(cause.detail.trim_start_matches("url: ").to_owned()),
    }
}

/// Checks the secrets that sign.
pub(super) fn check_secrets(secrets: &[Sealed]) -> Result<(), String> {
    for (at, secret) in secrets.iter().enumerate() {
        let signed = webhook::sign(std::slice::from_ref(&secret.value), "", 0, b"");
        let which = match secrets.len() {
            1 => String::new(),
            all => format!("number {} of {all}: ", at + 1),
        };
        signed.map_err(|error| format!("{which}{error}"))?;
    }
    Ok(())
}

/// Checks the headers that the operator adds.
pub(super) fn check_headers(headers: &[(String, Sealed)]) -> Result<(), String> {
    let headers = headers.iter().map(|(name, sealed)| (name.clone(), sealed.value.clone()));
    let options = Options {
        headers: headers.collect(),
        allow_private: true,
        ..Options::new("http://127.0.0.1/", "check")
    };
    Http::new(options).map(drop).map_err(|cause| cause.detail)
}
