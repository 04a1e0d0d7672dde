//! Refusals: a status, and an error in words.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};

use records::answers::Problem;

/// A refusal.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    header: Option<(header::HeaderName, HeaderValue)>,
}

impl Refusal {
    /// A refusal with this status, and an error that says what was wrong and what to do.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            header: None,
        }
    }

    pub(super) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// A fault of the program.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    /// For now: the client may ask again in a second.
    pub(super) fn busy(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error).with(header::RETRY_AFTER, "1")
    }

    /// With a header for the client.
    pub(super) fn with(self, name: header::HeaderName, value: &'static str) -> Self {
        Self {
            header: Some((name, HeaderValue::from_static(value))),
            ..self
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self {
            status,
            error,
            header,
        } = self;
        let mut response = (status, Json(Problem { error })).into_response();
        response.headers_mut().extend(header);
        response
    }
}
