//! The HTTP client of the command line tool and the live table.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::RequestBuilder;
use ureq::http::{Response, StatusCode};

use contract::config::Config;
use contract::file;
use records::answers::Reloading;

/// How long a switch may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long it may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Largest answer that is accepted: thousands of segments are a few MiB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Longest file of a token that is read.
const TOKEN_FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a switch listens by default.
pub const DEFAULT_URL: &str = "http://127.0.0.1:9464";

/// Where a station listens by default.
pub const DEFAULT_STATION_URL: &str = "http://127.0.0.1:9465";

/// Why a request to a switch failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There was no answer in time.
    #[error(
        "no switch answers at {url}: {reason}; start `vernierd`, load the plugin, or give the switch's address \
         with --url"
    )]
    Unreachable {
        /// The address that was asked.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// No station answers.
    #[error(
        "no station answers at {url}: {reason}; start one with `vernier-station`, or give its address with --station"
    )]
    NoStation {
        /// The address that was asked.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// A switch of another version answers.
    #[error(
        "the switch at {url} is a vernier of version {version}, and this tool of version {}: \
         {reason}; use the tool that came with the switch",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// Where it is.
        url: String,
        /// Its version.
        version: String,
        /// What was wrong with its answer.
        reason: String,
    },
    /// The program that answers is not a switch of this version.
    #[error(
        "what answers at {url} is not a vernier of version {}: {reason}; check --url (a switch, by default at port 9464) \
         and --station (a station, at 9465), or use the tool that came with the switch",
        env!("CARGO_PKG_VERSION")
    )]
    Foreign {
        /// The address that was asked.
        url: String,
        /// What was wrong with the answer.
        reason: String,
    },
    /// It needs a token, and got none.
    #[error(
        "the switch at {url} needs a token; name the file that contains it (the switch's \
         http.token_file) with --token-file or VERNIER_TOKEN_FILE"
    )]
    NoToken {
        /// Where it is.
        url: String,
    },
    /// It needs another token.
    #[error(
        "the switch at {url} does not take the token it was shown; the file has to hold the same \
         as the switch's http.token_file held when it started"
    )]
    WrongToken {
        /// Where it is.
        url: String,
    },
    /// The file with the token cannot be read, or has none.
    #[error("{path}: cannot read the token: {reason}")]
    TokenFile {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The request is not valid; the switch's own message says why.
    #[error("{reason}")]
    Question {
        /// Its message.
        reason: String,
    },
    /// It refuses the request; its own message says why.
    #[error("the switch at {url} refuses: {reason}")]
    Refused {
        /// Where it is.
        url: String,
        /// Its message.
        reason: String,
        /// Whether to try again in a second.
        is_for_now: bool,
    },
}

/// A client of one switch.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
    /// Whether this is a client of a station, not of a switch.
    is_station: bool,
}

impl Client {
    /// The switch at `url`, such as `http://127.0.0.1:9464`; the scheme may be left out. `token` is
    /// sent with every request.
    pub fn new(url: &str, token: Option<String>) -> Self {
        let scheme = if url.contains("://") { "" } else { "http://" };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .timeout_connect(Some(CONNECT_MAX))
            .http_status_as_error(false)
            .build();
        Self {
            url: format!("{scheme}{}", url.trim_end_matches('/')),
            token,
            agent: ureq::Agent::new_with_config(config),
            is_station: false,
        }
    }

    /// The same for a station.
    #[must_use]
    pub fn of_station(self) -> Self {
        Self {
            is_station: true,
            ..self
        }
    }

    /// Where the switch is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its answer at `path`, such as `/api/v1/status`, to a query.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, ClientError> {
        let request = self.authorized(self.agent.get(format!("{}{path}", self.url)));
        let query = query.iter().map(|(name, value)| (*name, value.as_str()));
        self.understand(request.query_pairs(query).call())
    }

    /// Its answer at `path` to a query of this type; fields that are `None` are left out.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ClientError> {
        let query =
            serde_json::to_value(query).map_err(|error| self.foreign(&error.to_string()))?;
        let fields = query.as_object().into_iter().flatten();
        let given = fields.filter(|(_, value)| !value.is_null());
        let pairs: Vec<(&str, String)> = given
            .map(|(name, value)| {
                let text = value.as_str().map(str::to_owned);
                (name.as_str(), text.unwrap_or_else(|| value.to_string()))
            })
            .collect();
        self.get(path, &pairs)
    }

    fn authorized<Body>(&self, request: RequestBuilder<Body>) -> RequestBuilder<Body> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// The configuration that it runs.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn config(&self) -> Result<Config, ClientError> {
        let value: Value = self.get("/api/v1/config", &[])?;
        serde_json::from_value(value).map_err(|error| self.foreign(&error.to_string()))
    }

    /// Requests a reload of its configuration; returns the number of the previous reload.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn reload(&self) -> Result<u64, ClientError> {
        let request = self.authorized(self.agent.post(format!("{}/api/v1/reload", self.url)));
        let answer = request.header("X-Vernier", "reload").send_empty();
        self.understand(answer)
            .map(|reloading: Reloading| reloading.after)
    }

    fn understand<T: DeserializeOwned>(
        &self,
        answer: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let url = || self.url.clone();
        let mut answer = answer.map_err(|error| match error {
            ureq::Error::Protocol(_) => self.foreign(&error.to_string()),
            error if self.is_station => ClientError::NoStation {
                url: url(),
                reason: error.to_string(),
            },
            error => ClientError::Unreachable {
                url: url(),
                reason: match error {
                    ureq::Error::Io(error) => error.to_string(),
                    error => error.to_string(),
                },
            },
        })?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = body
            .read_to_string()
            .map_err(|error| self.foreign(&error.to_string()))?;
        match status {
            status if status.is_success() => {
                serde_json::from_str(&text).map_err(|error| self.foreign(&error.to_string()))
            }
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                Err(ClientError::NoToken { url: url() })
            }
            StatusCode::UNAUTHORIZED => Err(ClientError::WrongToken { url: url() }),
            StatusCode::NOT_FOUND => Err(self.foreign(&format!("http status: {status}"))),
            status => {
                let reason = words(&text).unwrap_or_else(|| status.to_string());
                Err(match status {
                    StatusCode::BAD_REQUEST => ClientError::Question { reason },
                    status => ClientError::Refused {
                        url: url(),
                        reason,
                        is_for_now: status == StatusCode::SERVICE_UNAVAILABLE,
                    },
                })
            }
        }
    }

    /// The error for an answer of another version, or of another program.
    fn foreign(&self, reason: &str) -> ClientError {
        let (url, reason) = (self.url.clone(), reason.to_owned());
        match self.version() {
            Some(version) if version != env!("CARGO_PKG_VERSION") => ClientError::Version {
                url,
                version,
                reason,
            },
            _ => ClientError::Foreign { url, reason },
        }
    }

    /// Its version, if it answers with one.
    fn version(&self) -> Option<String> {
        let request = self.authorized(self.agent.get(format!("{}/api/v1/status", self.url)));
        let mut answer = request.call().ok()?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let status: Value = body.read_json().ok()?;
        Some(status.get("version")?.as_str()?.to_owned())
    }
}

/// The token in a file: its first line.
///
/// # Errors
/// [`ClientError::TokenFile`].
pub fn read_token(path: &Path) -> Result<String, ClientError> {
    let failed = |reason: String| ClientError::TokenFile {
        path: path.display().to_string(),
        reason,
    };
    let text = file::read_text(path, TOKEN_FILE_BYTES_MAX);
    let text = text.map_err(|error| failed(error.to_string()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(failed("its first line is empty".to_owned()));
    }
    let is_fine = token.chars().all(|c| c.is_ascii_graphic());
    let words = "a token has only visible ASCII characters";
    is_fine
        .then(|| token.to_owned())
        .ok_or_else(|| failed(words.to_owned()))
}

/// The error in an answer: the `error` of an object, or the text itself on one line.
fn words(text: &str) -> Option<String> {
    let object: Option<Value> = serde_json::from_str(text).ok();
    let error = object.as_ref().and_then(|object| object.get("error"));
    let text = error.and_then(Value::as_str).unwrap_or(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
