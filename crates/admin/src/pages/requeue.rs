//! Requeueing from a form: a page that says what would happen, and one that says what did.
//! Browsers with scripts see the same in a dialog, through the API.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, RawQuery, State};
use axum::response::Html;

use super::{Frame, html};
use crate::app::App;
use crate::gate::Body;
use crate::problem::Problem;
use crate::requeue::{Order, RequeuedView, TRIED};
use crate::search::Typed;
use crate::session::Who;
use crate::show::things;

#[derive(Template)]
#[template(path = "requeue.html")]
struct RequeuePage {
    frame: Frame,
    form: Form,
    done: bool,
    requeued: String,
    none: bool,
    skipped: Option<String>,
    more: bool,
    at_least: bool,
    count: usize,
    back: String,
}

/// What the form holds: identities, or `all` of what the filter finds.
struct Form {
    typed: Typed,
    ids: Vec<String>,
    all: bool,
    count: Option<usize>,
    value: String,
}

/// Says what would be requeued, and asks.
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, Problem> {
    let mut form = Form::read(query.as_deref().unwrap_or_default())?;
    if form.all {
        form.count.get_or_insert(TRIED);
    }
    let view = form.order()?.try_out(app.outbox(form.typed.outbox())?).await?;
    show(&app, &who, form, view, false).await
}

/// Requeues what the form says.
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    Body(body): Body,
) -> Result<Html<String>, Problem> {
    let text = std::str::from_utf8(&body).map_err(|_| Problem::bad("the form is not UTF-8"))?;
    let form = Form::read(text)?;
    if !app.sessions.form_is(&who, &form.value) {
        return Err(Problem::forbidden("this form is not of your session; reload the page"));
    }
    let view = form.order()?.run(&app, app.outbox(form.typed.outbox())?).await?;
    show(&app, &who, form, view, true).await
}

async fn show(
    app: &App,
    who: &Who,
    form: Form,
    view: RequeuedView,
    done: bool,
) -> Result<Html<String>, Problem> {
    let frame = Frame::new(app, who, "dead", "Requeue").await;
    let count = |ids: &[String]| things(ids.len() as u64, "event");
    html(&RequeuePage {
        frame,
        done,
        requeued: count(&view.requeued),
        none: view.requeued.is_empty(),
        skipped: (!view.skipped.is_empty()).then(|| count(&view.skipped)),
        more: view.more,
        at_least: view.at_least,
        count: match form.count {
            Some(count) if view.at_least => count,
            _ => view.requeued.len().max(1),
        },
        back: form.typed.href("/dead"),
        form,
    })
}

impl Form {
    fn read(text: &str) -> Result<Form, Problem> {
        let (typed, others) = Typed::read_some(text);
        let mut form =
            Form { typed, ids: Vec::new(), all: false, count: None, value: String::new() };
        for (name, value) in others {
            match name.as_str() {
                "pick" => form.ids.push(value),
                "all" => form.all = value == "true",
                "form" => form.value = value,
                "count" => {
                    let number = value.parse().map_err(|_| Problem::bad("count: not a number"))?;
                    form.count = Some(number);
                }
                _ => return Err(Problem::bad(format!("{name:?} is not a parameter here"))),
            }
        }
        Ok(form)
    }

    fn order(&self) -> Result<Order, Problem> {
        let filter = self.typed.search()?.filter;
        Order::new(&self.ids, self.all.then_some(filter), self.count)
    }
}
