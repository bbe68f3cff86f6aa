//! The commands of Chromium's driver that no standard names.

use axum::http::Method;
use fantoccini::wd::WebDriverCompatibleCommand;
use serde_json::Value;
use url::{ParseError, Url};

/// One command of a session.
#[derive(Debug)]
pub(super) struct Extra {
    /// Its path under the session.
    pub(super) path: &'static str,
    /// What it carries.
    pub(super) body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
