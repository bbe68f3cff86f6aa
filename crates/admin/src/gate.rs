//! What every request passes before a handler sees it, and every answer on its way out.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use event::Millis;

use crate::app::App;
use crate::hosts::same_origin;
use crate::problem::Problem;
use crate::session::{Sessions, Who};

/// Bytes of a request's body at the most.
const BODY: usize = 64 * 1024;
/// How long an answer may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a wrong token waits for its answer, after too many.
const SLOW: Duration = Duration::from_millis(500);
/// The header that no form of another site can set.
const CUSTOM: &str = "x-postbox";

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Peer {
    /// Returns the peer of a request; all that are not known are one.
    fn of(extensions: &Extensions) -> IpAddr {
        let peer = extensions.get::<Peer>();
        peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Peer, Infallible> {
        Ok(Peer(Peer::of(&parts.extensions)))
    }
}

/// Adds the headers that every answer carries, and bounds its time.
pub(crate) async fn frame(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(PATIENCE, next.run(request)).await;
    let mut response = answer.unwrap_or_else(|_| {
        let detail = "the answer took too long";
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "too-slow", detail).into_response()
    });
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Turns away requests to a foreign host, too large ones, and ones from another site.
pub(crate) async fn origin(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let host = text(request.headers(), &header::HOST);
    let target = request.uri().authority().map(|authority| authority.as_str());
    if !host.is_some_and(|host| app.hosts.allows(host))
        || !target.is_none_or(|target| app.hosts.allows(target))
    {
        let detail = "this host name is not served here; if it is yours, add it to `hosts` in the \
                      section [admin] of the configuration and start again";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong-host", detail));
    }
    let length = text(request.headers(), &header::CONTENT_LENGTH);
    if length.and_then(|length| length.parse().ok()).is_some_and(|n: usize| n > BODY) {
        return Err(too_large());
    }
    let headers = request.headers();
    let program = app.sessions.closed() && Sessions::bearer(headers).is_some();
    if reads(request.method()) || own(headers, host.unwrap_or_default(), program) {
        return Ok(next.run(request).await);
    }
    Err(Problem::forbidden("a change must come from the console's own pages, not another site"))
}

/// A request's body, within the limit.
pub(crate) struct Body(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Body, Problem> {
        to_bytes(request.into_body(), BODY).await.map(Body).map_err(|_| too_large())
    }
}

fn too_large() -> Problem {
    let detail = format!("a request's body has at most {BODY} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Tells whether a change comes from this origin. A program names none; it passes here and has to
/// carry the token itself, which no browser adds. `null` is what a browser says that names none.
fn own(headers: &HeaderMap, host: &str, program: bool) -> bool {
    match text(headers, &header::ORIGIN).filter(|origin| *origin != "null") {
        Some(origin) => same_origin(origin, host),
        None => match text(headers, &HeaderName::from_static("sec-fetch-site")) {
            Some(site) => site == "same-origin",
            None => program && !headers.contains_key(header::ORIGIN),
        },
    }
}

/// Lets in who carries the token or a session. People are led to the login page.
pub(crate) async fn visitor(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let who = match identify(&app, request.headers(), request.extensions()).await? {
        Some(who) => who,
        None if is_page(request.uri().path()) && reads(request.method()) => {
            let here = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let mut query = form_urlencoded::Serializer::new(String::new());
            let to = format!("/login?{}", query.append_pair("next", here).finish());
            return Ok(Redirect::to(&to).into_response());
        }
        None => {
            let detail = "a token is needed: Authorization: Bearer …, or sign in at /login";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "token-needed", detail));
        }
    };
    let custom = request.headers().contains_key(CUSTOM);
    let api = request.uri().path().starts_with("/api/");
    if !reads(request.method()) && api && who != Who::Bearer && !custom {
        return Err(Problem::forbidden("a change through the API carries the header x-postbox: 1"));
    }
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

async fn identify(
    app: &App,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Option<Who>, Problem> {
    let token = Sessions::bearer(headers).filter(|_| app.sessions.closed());
    let Some(token) = token else { return Ok(known(app, headers)) };
    Ok(admit(app, Peer::of(extensions), token).await?.then_some(Who::Bearer))
}

/// Tells who a visitor is, without trying a token.
pub(crate) fn known(app: &App, headers: &HeaderMap) -> Option<Who> {
    match app.sessions.closed() {
        true => app.sessions.find(headers, Millis::now()),
        false => Some(Who::Anyone),
    }
}

/// Tries a token. The right one always opens: whoever guesses may share its address, behind a
/// proxy, and must not shut it out.
pub(crate) async fn admit(app: &App, peer: IpAddr, token: &str) -> Result<bool, Problem> {
    if app.sessions.opens(token) {
        return Ok(true);
    }
    if let Some(wait) = app.tries.wait(peer) {
        tokio::time::sleep(SLOW).await;
        let detail = "too many wrong tokens; wait a minute";
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", detail);
        return Err(problem.after(wait.as_secs() + 1));
    }
    app.tries.wrong(peer);
    Ok(false)
}

/// Tells whether a person looks at this path, rather than a program.
pub(crate) fn is_page(path: &str) -> bool {
    let program = ["/api/", "/static/", "/live", "/metrics", "/readyz"];
    !program.iter().any(|prefix| path.starts_with(prefix))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
