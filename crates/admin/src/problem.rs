//! What a visitor is told when something does not work: a code, a sentence, and no internals.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use event::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

/// A failed answer. It travels as JSON; `pages::dress` turns it into a page where a person looks.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// The stable code.
    pub(crate) code: &'static str,
    /// What is wrong, and what to do.
    pub(crate) detail: String,
    /// After how many seconds to ask again.
    pub(crate) retry_after: Option<u64>,
}

/// A problem as the API writes it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// The stable code. Codes of causes have a page under `/explain/{code}`.
    code: String,
    /// What is wrong, and what to do.
    detail: String,
}

impl Problem {
    /// Makes a problem.
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem { status, code, detail: detail.into(), retry_after: None }
    }

    /// The request cannot be understood.
    pub(crate) fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// There is no such thing.
    pub(crate) fn missing(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// The request may come from another site.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Says when to ask again.
    pub(crate) fn after(mut self, seconds: u64) -> Problem {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let cause = error.cause();
        let (code, detail) = (cause.code.as_str(), cause.detail.clone());
        match error {
            StoreError::Down(_) => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).after(5)
            }
            StoreError::Broken(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody { code: self.code.to_string(), detail: self.detail.clone() };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}
