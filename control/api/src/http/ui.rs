//! The page for browsers: files that hold no data, served without a token. What the page shows it asks of `/api/v1`,
//! with the token.
//!
//! No file is generated or fetched: scripts are modules as they stand in `ui/`.

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};

use super::answer::accepted;

/// Where the page is; its files are below.
pub const PATH: &str = "/ui";

/// What people type as well; it is redirected.
const WITH_SLASH: &str = "/ui/";

/// Only this server's own files and answers: no other server, no script or style in the page's text, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page itself.
const INDEX: &str = include_str!("ui/index.html");

macro_rules! files {
    ($($name:literal: $kind:expr),* $(,)?) => {
        /// Every file below the page: its path, its content type, and what it is.
        const FILES: &[(&str, &str, &str)] =
            &[$((concat!("/ui/", $name), $kind, include_str!(concat!("ui/", $name)))),*];
    };
}

files! {
    "style.css": "text/css; charset=utf-8",
    "api.js": SCRIPT,
    "charts.js": SCRIPT,
    "dom.js": SCRIPT,
    "fleet.js": SCRIPT,
    "flows.js": SCRIPT,
    "groups.js": SCRIPT,
    "health.js": SCRIPT,
    "heat.js": SCRIPT,
    "keys.js": SCRIPT,
    "main.js": SCRIPT,
    "network.js": SCRIPT,
    "overview.js": SCRIPT,
    "paths.js": SCRIPT,
    "ports.js": SCRIPT,
    "segments.js": SCRIPT,
    "slow.js": SCRIPT,
    "station.js": SCRIPT,
    "story.js": SCRIPT,
    "switch.js": SCRIPT,
    "time.js": SCRIPT,
    "units.js": SCRIPT,
    "wires.js": SCRIPT,
    "words.js": SCRIPT,
}

/// Documents that the page leads to, as text: a machine without access to the internet has them, too.
const DOCUMENTS: [(&str, &str, &str); 2] = [
    (
        "/ui/docs/ui.md",
        TEXT,
        include_str!("../../../../docs/ui.md"),
    ),
    (
        "/ui/docs/concepts.md",
        TEXT,
        include_str!("../../../../docs/concepts.md"),
    ),
];

const TEXT: &str = "text/plain; charset=utf-8";

/// Content type of the page.
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Whose page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// A switch's, or the plugin's.
    Switch,
    /// A station's.
    Station,
}

/// Whether a path is the page's, or one of its files'.
pub(super) fn is_file(path: &str) -> bool {
    path == PATH || path == WITH_SLASH || files().any(|(file, ..)| path == *file)
}

fn files() -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    FILES.iter().chain(&DOCUMENTS)
}

/// Whether a request for `/` is a browser's. Browsers accept HTML by name; `curl` and scrapers accept anything.
pub(super) fn is_browser(headers: &HeaderMap) -> bool {
    accepted(headers).any(|range| range.essence_str() == "text/html")
}

/// The answer to `/`: browsers are redirected to the page, others get `text`. The address is relative, so that it holds behind a
/// proxy that serves this server below a path of its own.
pub fn home(headers: &HeaderMap, text: String) -> Response {
    let vary = [(header::VARY, "accept")];
    if is_browser(headers) {
        (vary, Redirect::temporary("ui")).into_response()
    } else {
        (vary, text).into_response()
    }
}

/// The page.
pub fn index<S: Clone + Send + Sync + 'static>(of: Of) -> MethodRouter<S> {
    get(move || async move {
        let page = match of {
            Of::Switch => INDEX.to_owned(),
            Of::Station => INDEX.replace("data-of=\"switch\"", "data-of=\"station\""),
        };
        file(HTML, page)
    })
}

/// Adds the page's files.
pub fn with_files<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    let router = router.route(WITH_SLASH, get(async || Redirect::temporary("../ui")));
    files().fold(router, |router, &(path, kind, text)| {
        router.route(path, get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &'static str, text: impl IntoResponse) -> Response {
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // An update of the switch is an update of its page.
        (header::CACHE_CONTROL, "no-cache"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all files together, as the page is promised to be.
    const BYTES_MAX: usize = 250_000;

    #[test]
    fn all_of_it_is_small() {
        let files = files().map(|(_, _, text)| text.len());
        let bytes = INDEX.len() + files.sum::<usize>();
        assert!(bytes < BYTES_MAX, "{bytes} bytes");
    }

    #[test]
    fn every_file_there_is_is_served_and_nothing_is_fetched_from_elsewhere() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/ui");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| format!("/ui/{}", entry.unwrap().file_name().display()))
            .filter(|path| path != "/ui/index.html")
            .collect();
        there.sort();
        let mut served: Vec<&str> = FILES.iter().map(|(path, ..)| *path).collect();
        served.sort_unstable();
        assert_eq!(served, there);
        let texts = FILES.iter().map(|(path, _, text)| (*path, *text));
        for (path, text) in texts.chain([(PATH, INDEX)]) {
            for foreign in [
                "https://",
                "innerHTML",
                "insertAdjacentHTML",
                "eval(",
                "style=\"",
            ] {
                assert!(!text.contains(foreign), "{path}: {foreign}");
            }
        }
    }
}
