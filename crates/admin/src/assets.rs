//! What the pages need beside themselves, compiled in. The folder of their URLs is a hash of all
//! of them, so a browser keeps them for ever and still never mixes two builds.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::problem::Problem;

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($name:literal $kind:literal,)+) => {
        const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            kind: $kind,
            text: include_str!(concat!("../static/", $name)),
        },)+];
    };
}

assets! {
    "base.css" "text/css; charset=utf-8",
    "parts.css" "text/css; charset=utf-8",
    "tables.css" "text/css; charset=utf-8",
    "overview.css" "text/css; charset=utf-8",
    "pages.css" "text/css; charset=utf-8",
    "theme.js" "text/javascript; charset=utf-8",
    "app.js" "text/javascript; charset=utf-8",
    "chart.js" "text/javascript; charset=utf-8",
    "format.js" "text/javascript; charset=utf-8",
    "overview.js" "text/javascript; charset=utf-8",
    "payload.js" "text/javascript; charset=utf-8",
    "requeue.js" "text/javascript; charset=utf-8",
    "mark.svg" "image/svg+xml",
}

static FOLDER: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in ASSETS {
        hash.update(asset.name);
        hash.update(asset.text);
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..9])
});

/// Returns the folder of this build's assets, without a slash at its end.
pub(crate) fn folder() -> String {
    format!("/static/{}", *FOLDER)
}

/// Serves one asset.
pub(crate) async fn asset(
    Path((hash, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = ASSETS.iter().find(|asset| asset.name == name && hash == *FOLDER);
    let asset = found.ok_or_else(|| Problem::missing("there is no such file in this build"))?;
    let tag = format!("\"{hash}\"");
    let answer = [
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable".to_string()),
        (header::ETAG, tag.clone()),
    ];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    Ok((answer, [(header::CONTENT_TYPE, asset.kind)], asset.text).into_response())
}
