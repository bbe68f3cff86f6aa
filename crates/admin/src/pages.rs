//! The console's pages. Everything on them is escaped by the templates; a payload is on none.

pub(crate) mod dead;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod explain;
mod list;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod requeue;
mod rows;

use std::sync::Arc;

use ::event::{StoreError, explain as explain_code};
use askama::Template;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use crate::app::App;
use crate::assets;
use crate::gate::{is_page, known};
use crate::problem::Problem;
use crate::session::Who;
use crate::show::number;

/// What surrounds every page.
struct Frame {
    /// The page's title.
    title: String,
    /// The section it is in.
    here: &'static str,
    /// The folder of the assets.
    assets: String,
    /// Whether the visitor is inside, and sees the navigation.
    inside: bool,
    /// Whether the visitor has a session to end.
    session: bool,
    /// The value that the visitor's forms carry.
    form: String,
    /// How many events are dead, if the stores told.
    dead: Option<u64>,
}

impl Frame {
    /// Surrounds a page for a visitor.
    async fn new(app: &App, who: &Who, here: &'static str, title: impl Into<String>) -> Frame {
        let tallies = app.tallies().await;
        let dead: Result<u64, &StoreError> =
            tallies.iter().map(|tally| tally.counts.as_ref().map(|counts| counts.dead)).sum();
        Frame { here, dead: dead.ok(), ..Frame::inside(app, who, title) }
    }

    /// Surrounds a page for a visitor without asking any store.
    fn inside(app: &App, who: &Who, title: impl Into<String>) -> Frame {
        Frame {
            inside: true,
            session: matches!(who, Who::Session(_)),
            form: app.sessions.form_value(who),
            ..Frame::bare(title)
        }
    }

    /// Surrounds a page for a stranger.
    fn bare(title: impl Into<String>) -> Frame {
        Frame {
            title: title.into(),
            here: "",
            assets: assets::folder(),
            inside: false,
            session: false,
            form: String::new(),
            dead: None,
        }
    }

    fn dead_badge(&self) -> Option<String> {
        self.dead.filter(|dead| *dead > 0).map(number)
    }
}

/// What a page says in place of what a store did not tell.
struct Trouble {
    outbox: String,
    code: &'static str,
    detail: String,
    passing: bool,
}

impl Trouble {
    fn new(outbox: &str, error: &StoreError) -> Trouble {
        Trouble {
            outbox: outbox.to_string(),
            code: error.cause().code.as_str(),
            detail: error.cause().detail.clone(),
            passing: matches!(error, StoreError::Down(_)),
        }
    }

    fn status(&self) -> StatusCode {
        match self.passing {
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Renders a page.
fn html(page: &impl Template) -> Result<Html<String>, Problem> {
    page.render().map(Html).map_err(|_| {
        let detail = "the page could not be written";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "page-broken", detail)
    })
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    problem: &'a Problem,
    explained: bool,
}

/// Turns a problem into a page where a person looks.
pub(crate) async fn dress(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let for_person = is_page(request.uri().path());
    let who = known(&app, request.headers());
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>().filter(|_| for_person) else {
        return response;
    };
    let title = problem.status.canonical_reason().unwrap_or("Problem");
    let explained = explain_code(problem.code).is_some();
    // A name that somebody else pointed here learns nothing, not even who looks.
    let who = who.filter(|_| problem.status != StatusCode::MISDIRECTED_REQUEST);
    let frame = match who {
        Some(who) => Frame::inside(&app, &who, title),
        None => Frame::bare(title),
    };
    let page = ProblemPage { frame, problem, explained };
    let Ok(body) = page.render() else { return response };
    let mut dressed = (problem.status, Html(body)).into_response();
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        dressed.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    dressed
}
