//! Signing in with the token, and signing out.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use event::Millis;

use super::{Frame, html};
use crate::app::App;
use crate::gate::{Body, Peer, admit};
use crate::problem::Problem;
use crate::session::{COOKIE, LASTS, Who};

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: String,
    wrong: bool,
}

/// Shows the login page.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let next = next(query.as_deref().unwrap_or_default());
    if !app.sessions.closed() {
        return Ok(Redirect::to("/").into_response());
    }
    Ok(show(next, false)?.into_response())
}

/// Opens a session for the right token.
pub(crate) async fn enter(
    State(app): State<Arc<App>>,
    Peer(peer): Peer,
    Body(body): Body,
) -> Result<Response, Problem> {
    let field = |wanted: &str| {
        form_urlencoded::parse(&body).find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let token = field("token").unwrap_or_default();
    let next = field("next").map_or_else(|| "/".to_string(), |next| local(&next));
    if !admit(&app, peer, token.trim()).await? {
        tracing::warn!(%peer, "sign-in refused: wrong token");
        return Ok((StatusCode::UNAUTHORIZED, show(next, true)?).into_response());
    }
    tracing::info!(%peer, "signed in");
    let session = app.sessions.open(Millis::now());
    let cookie = format!("{COOKIE}={session}; Path=/; Max-Age={LASTS}; HttpOnly; SameSite=Strict");
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&next)).into_response())
}

/// Forgets the session in this browser.
pub(crate) async fn leave(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let value = form_urlencoded::parse(&body)
        .find_map(|(name, value)| (name == "form").then_some(value))
        .unwrap_or_default();
    if !app.sessions.form_is(&who, &value) {
        return Err(Problem::forbidden("this form is not of your session; reload the page"));
    }
    let cookie = format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response())
}

fn show(next: String, wrong: bool) -> Result<Html<String>, Problem> {
    html(&LoginPage { frame: Frame::bare("Sign in"), next, wrong })
}

fn next(query: &str) -> String {
    form_urlencoded::parse(query.as_bytes())
        .find_map(|(name, value)| (name == "next").then(|| local(&value)))
        .unwrap_or_else(|| "/".to_string())
}

/// Keeps a path of this console and nothing else: `//host` and `/\host` lead away.
fn local(path: &str) -> String {
    let safe = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains(|c: char| c == '\\' || c.is_control() || !c.is_ascii());
    if safe { path.to_string() } else { "/".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_login_a_visitor_stays_here() {
        assert_eq!(next("next=%2Fevents%3Fstatus%3DDEAD"), "/events?status=DEAD");
        for evil in ["https://evil", "//evil", "/\\evil", "/a\r\nX: y", "javascript:x", ""] {
            assert_eq!(local(evil), "/", "{evil}");
        }
    }
}
