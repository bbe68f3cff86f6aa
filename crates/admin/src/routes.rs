//! Every path, and what a request passes on its way there.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::session::Sessions;
use crate::{Console, Options};
use crate::{api, assets, export, gate, live, openapi, pages, requeue};

/// Returns the console as a router, for a listener at `local`.
pub fn router(console: Console, options: Options, local: SocketAddr) -> Router {
    stoppable(console, options, local, CancellationToken::new())
}

/// Returns the console as a router whose live streams end with `stop`.
pub(crate) fn stoppable(
    console: Console,
    options: Options,
    local: SocketAddr,
    stop: CancellationToken,
) -> Router {
    let hosts = Hosts::new(local, &options.hosts);
    let app = Arc::new(App::new(console, Sessions::new(options.token), hosts, stop));
    let known = Router::new()
        .merge(console_pages())
        .merge(api_routes())
        .route("/live", get(live::live))
        .route("/metrics", get(metrics))
        .layer(from_fn_with_state(app.clone(), gate::visitor));
    let open = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/login", get(pages::login::page).post(pages::login::enter))
        .route("/static/{hash}/{name}", get(assets::asset));
    open.merge(known)
        .fallback(async || Problem::missing("there is no such page"))
        .method_not_allowed_fallback(async || {
            let detail = "this path does not take that method";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", detail)
        })
        .layer(from_fn_with_state(app.clone(), gate::origin))
        .layer(from_fn_with_state(app.clone(), pages::dress))
        .layer(from_fn(gate::frame))
        .with_state(app)
}

fn console_pages() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(pages::overview::page))
        .route("/events", get(pages::events::page))
        .route("/events/{id}", get(pages::event::page))
        .route("/dead", get(pages::dead::page))
        .route("/dead/requeue", get(pages::requeue::confirm).post(pages::requeue::run))
        .route("/explain", get(pages::explain::index))
        .route("/explain/{code}", get(pages::explain::page))
        .route("/logout", post(pages::login::leave))
}

fn api_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/outboxes", get(api::outboxes))
        .route("/api/v1/pulse", get(api::pulse))
        .route("/api/v1/events", get(api::events))
        .route("/api/v1/events/{id}", get(api::event))
        .route("/api/v1/events/{id}/payload", get(api::payload))
        .route("/api/v1/export", get(export::export))
        .route("/api/v1/requeue", post(requeue::requeue))
        .route("/api/v1/openapi.json", get(description))
}

async fn description() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], openapi::openapi())
}

async fn livez() -> &'static str {
    "ok\n"
}

async fn readyz(State(app): State<Arc<App>>) -> impl IntoResponse {
    match (app.unready)() {
        why if why.is_empty() => (StatusCode::OK, "ready\n".to_owned()),
        why => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", why.join("; "))),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.pulse.metrics())
}
