//! What a cause code means and what to do: the pages under `docs/errors/`.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, Path, State};
use axum::response::Html;
use event::{EXPLANATIONS, explain};

use super::{Frame, html};
use crate::app::App;
use crate::markdown::{self, Block, Span};
use crate::problem::Problem;
use crate::session::Who;

#[derive(Template)]
#[template(path = "explain.html")]
struct ExplainPage {
    frame: Frame,
    code: &'static str,
    blocks: Vec<Block>,
    codes: Vec<&'static str>,
}

#[derive(Template)]
#[template(path = "codes.html")]
struct CodesPage {
    frame: Frame,
    codes: Vec<(&'static str, Vec<Span>)>,
}

/// Lists every code with its first sentence.
pub(crate) async fn index(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
) -> Result<Html<String>, Problem> {
    let frame = Frame::new(&app, &who, "explain", "Cause codes").await;
    let lead = |page| match markdown::read(page).into_iter().next() {
        Some(Block::Paragraph(spans)) => spans,
        _ => Vec::new(),
    };
    let codes = EXPLANATIONS.iter().map(|e| (e.code.as_str(), lead(e.page))).collect();
    html(&CodesPage { frame, codes })
}

/// Explains one code.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Who>,
    Path(code): Path<String>,
) -> Result<Html<String>, Problem> {
    let found = explain(&code).ok_or_else(|| Problem::missing("there is no such cause code"))?;
    let frame = Frame::new(&app, &who, "explain", found.code.as_str()).await;
    html(&ExplainPage {
        frame,
        code: found.code.as_str(),
        blocks: markdown::read(found.page),
        codes: EXPLANATIONS.iter().map(|explanation| explanation.code.as_str()).collect(),
    })
}
