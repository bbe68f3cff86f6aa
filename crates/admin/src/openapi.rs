//! The description of the JSON API, made from the handlers themselves.

use utoipa::OpenApi;

use crate::{api, export, requeue};

#[derive(OpenApi)]
#[openapi(
    info(title = "Postbox", description = "Where every event is, and dead ones given a new life."),
    paths(
        api::outboxes,
        api::pulse,
        api::events,
        api::event,
        api::payload,
        export::export,
        requeue::requeue,
    )
)]
struct Api;

/// Returns the OpenAPI description of the JSON API.
pub fn openapi() -> String {
    Api::openapi().to_json().expect("the description is made of plain values")
}
