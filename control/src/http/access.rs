//! Who may ask: everybody, or who shows a token.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::refusal::Refusal;
use crate::export::process;
use crate::secret::{self, SecretAccess, SecretFault};

/// Paths that need no token: those by which others see whether the switch lives.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Fewest characters of a token.
const TOKEN_MIN: usize = 16;

/// Most characters of a token.
const TOKEN_MAX: usize = 1_024;

/// What clients have to show.
#[derive(Clone)]
pub(super) struct Token(Arc<[u8]>);

/// Why a file gives no token.
#[derive(Debug, thiserror::Error)]
#[error("http.token_file {}: {fault}", file.display())]
pub struct TokenError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, and what to do.
    pub fault: TokenFault,
}

/// What is wrong with a token's file.
#[derive(Debug, thiserror::Error)]
pub enum TokenFault {
    /// It cannot be read.
    #[error("cannot be read: {0}; make it with `head -c 24 /dev/urandom | base64 > FILE`")]
    Unreadable(io::Error),
    /// Others may read or change it.
    #[error(transparent)]
    Open(SecretAccess),
    /// It is no token.
    #[error(
        "expected one line of {TOKEN_MIN} to {TOKEN_MAX} visible ASCII characters, got {got}; make \
         it with `head -c 24 /dev/urandom | base64 > FILE`"
    )]
    NoToken {
        /// What it is instead; never what stands in it.
        got: String,
    },
}

impl fmt::Debug for Token {
    /// Says nothing: tokens do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads it from a file of one line.
    pub(super) fn load(file: &Path) -> Result<Self, TokenError> {
        read(file).map(Self).map_err(|fault| TokenError {
            file: file.to_owned(),
            fault,
        })
    }

    /// Whether a request shows it, compared in a time that does not tell how much of it is right.
    fn is_shown_by(&self, request: &Request) -> bool {
        let shown = request.headers().get(header::AUTHORIZATION);
        let shown = shown
            .map(axum::http::HeaderValue::as_bytes)
            .unwrap_or_default();
        let Some((scheme, shown)) = shown.split_at_checked("Bearer ".len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(shown.ct_eq(&self.0))
    }
}

fn read(path: &Path) -> Result<Arc<[u8]>, TokenFault> {
    let text = secret::read_line(path, TOKEN_MAX).map_err(|fault| match fault {
        SecretFault::Unreadable(error) => TokenFault::Unreadable(error),
        SecretFault::Open(access) => TokenFault::Open(access),
    })?;
    let got = if text.len() < TOKEN_MIN {
        format!("{}", text.len())
    } else if text.len() > TOKEN_MAX {
        "more".to_owned()
    } else if !text.iter().all(u8::is_ascii_graphic) {
        "blanks, further lines or other characters".to_owned()
    } else {
        return Ok(text.into());
    };
    Err(TokenFault::NoToken { got })
}

/// Whether a path needs no token.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.contains(&path)
}

/// Lets a request through if it may be answered.
pub(super) async fn guard(
    State(token): State<Option<Token>>,
    request: Request,
    next: Next,
) -> Response {
    let is_shown = token
        .as_ref()
        .is_none_or(|token| token.is_shown_by(&request));
    if is_shown || is_open(request.uri().path()) {
        return next.run(request).await;
    }
    process::rejected("unauthorized");
    let error = "expected the header `Authorization: Bearer TOKEN` with the token that stands in \
                 the file of http.token_file";
    Refusal::new(StatusCode::UNAUTHORIZED, error)
        .with(header::WWW_AUTHENTICATE, "Bearer realm=\"vernier\"")
        .into_response()
}
