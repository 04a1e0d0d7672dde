//! Access control: the token of a request, and the name in its header `Host`.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::answer::Refusal;
use super::ui;
use crate::process;
use contract::secret::{self, SecretFault};

/// Paths that need no token: health and readiness.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Fewest characters of a token.
const TOKEN_MIN: usize = 16;

/// Most characters of a token.
const TOKEN_MAX: usize = 1_024;

/// Which requests to answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    /// The token that requests need, if any.
    pub(super) token: Option<Token>,
    /// Names of this switch accepted in `Host`, in addition to `localhost` and addresses.
    pub(super) hosts: Arc<[String]>,
}

/// The token that requests need.
#[derive(Clone)]
pub(super) struct Token(Arc<[u8]>);

impl fmt::Debug for Token {
    /// Hides the token from logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token from a file of one line. The error says what is wrong with the file, and what to do.
    pub(super) fn load(file: &Path) -> Result<Self, String> {
        const MAKE_IT: &str = "make it with `head -c 24 /dev/urandom | base64 > FILE`";
        let text = secret::read_line(file, TOKEN_MAX).map_err(|fault| match fault {
            SecretFault::Unreadable(error) => format!("cannot be read: {error}; {MAKE_IT}"),
            SecretFault::Open(access) => access,
        })?;
        // Never quote the content.
        let got = if text.len() < TOKEN_MIN {
            text.len().to_string()
        } else if text.len() > TOKEN_MAX {
            "more".to_owned()
        } else if !text.iter().all(u8::is_ascii_graphic) {
            "blanks, further lines or other characters".to_owned()
        } else {
            return Ok(Self(text.into()));
        };
        Err(format!(
            "expected one line of {TOKEN_MIN} to {TOKEN_MAX} visible ASCII characters, got {got}; {MAKE_IT}"
        ))
    }

    /// Whether a request has the token, compared in constant time.
    fn is_in(&self, request: &Request) -> bool {
        let header = request.headers().get(header::AUTHORIZATION);
        let shown = header.and_then(|header| header.as_bytes().split_at_checked("Bearer ".len()));
        shown.is_some_and(|(scheme, shown)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(shown.ct_eq(&self.0))
        })
    }
}

/// Whether a path needs no token: health, and the files of the page, which contain no data.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || ui::is_file(path)
}

/// Whether a request is for a file of the page, or for `/` by a browser, which is redirected to the page.
fn is_open_page(request: &Request) -> bool {
    let path = request.uri().path();
    ui::is_file(path) || (path == "/" && ui::is_browser(request.headers()))
}

/// Passes a request on if it may be answered.
pub(super) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let token = access.token.as_ref();
    // A web page does not have the token: with it, any name in Host is accepted. What the page then asks has it.
    let is_page = is_open_page(&request);
    if token.is_some_and(|token| token.is_in(&request) || is_page) {
        return next.run(request).await;
    }
    if token.is_some() && !is_open(request.uri().path()) {
        process::rejected("unauthorized");
        let error = "expected the header `Authorization: Bearer TOKEN` with the token in the file \
                     http.token_file";
        return Refusal::new(StatusCode::UNAUTHORIZED, error)
            .with(header::WWW_AUTHENTICATE, "Bearer realm=\"vernier\"")
            .into_response();
    }
    if access.is_named_in(&request) {
        return next.run(request).await;
    }
    process::rejected("host");
    let error = "expected an address, `localhost` or a name in http.hosts in the header Host: any \
                 other name could be that of a web page; add it to http.hosts if it is a name of \
                 this switch, or set http.token_file and send the token";
    Refusal::new(StatusCode::FORBIDDEN, error).into_response()
}

impl Access {
    /// Whether a request names this switch by an address or a configured name. Otherwise a web page could
    /// make its own name resolve to this address (DNS rebinding), and read the answers.
    fn is_named_in(&self, request: &Request) -> bool {
        let in_headers = request.headers().get_all(header::HOST).iter();
        let in_headers = in_headers.map(|host| host.to_str().ok()?.parse().ok());
        let in_target = request.uri().authority().cloned().map(Some);
        let is_ours = |host: Option<Authority>| host.is_some_and(|host| self.has(host.host()));
        in_headers.chain(in_target).all(is_ours)
    }

    fn has(&self, host: &str) -> bool {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let names = self.hosts.iter().map(String::as_str);
        let mut names = names.chain(["localhost"]);
        address.is_ok() || names.any(|name| name.eq_ignore_ascii_case(host))
    }
}
