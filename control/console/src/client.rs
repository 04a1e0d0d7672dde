//! Asks a running switch over HTTP: what the command line tool and the live table are made of.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Response, StatusCode};

use contract::config::{Config, Device};
use records::answers::{FlowPage, FlowState, Reloading};
use records::snapshot::FlowQuery;

/// How long a switch may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long it may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Largest answer that is accepted: thousands of segments are a few MiB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Where a switch listens by default.
pub const DEFAULT_URL: &str = "http://127.0.0.1:9464";

/// Why a switch could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or not in time.
    #[error(
        "no switch answers at {url}: {reason}; start one with `vernierd`, or say with --url where \
         it is"
    )]
    Unreachable {
        /// Where it was sought.
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
    /// Something answers that is not a switch of this version.
    #[error(
        "what answers at {url} is not a vernier of version {}: {reason}; check --url, or use the \
         tool that came with the switch",
        env!("CARGO_PKG_VERSION")
    )]
    Foreign {
        /// Where it was sought.
        url: String,
        /// What was wrong with the answer.
        reason: String,
    },
    /// It wants a token, and was shown none.
    #[error(
        "the switch at {url} wants a token; name the file that holds it (the switch's \
         http.token_file) with --token-file or VERNIER_TOKEN_FILE"
    )]
    NoToken {
        /// Where it is.
        url: String,
    },
    /// It was shown another token than it wants.
    #[error(
        "the switch at {url} does not take the token it was shown; the file has to hold the same \
         as the switch's http.token_file held when it started"
    )]
    WrongToken {
        /// Where it is.
        url: String,
    },
    /// The file with the token cannot be read, or holds none.
    #[error("{path}: cannot read the token: {reason}")]
    TokenFile {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// It was asked what cannot be asked; its own words say why not.
    #[error("{reason}")]
    Question {
        /// Its words.
        reason: String,
    },
    /// It does not do what it was asked; its own words say why.
    #[error("the switch at {url} refuses: {reason}")]
    Refused {
        /// Where it is.
        url: String,
        /// Its words.
        reason: String,
        /// Whether it might do it in a second.
        is_for_now: bool,
    },
}

/// A way to one switch.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
}

impl Client {
    /// The switch at `url`, such as `http://127.0.0.1:9464`; the scheme may be left out. `token` is
    /// shown to it.
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
        }
    }

    /// Where the switch is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it answers at `path`, such as `/api/v1/status`, to a query.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, ClientError> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        for (name, value) in query {
            request = request.query(*name, value);
        }
        self.understand(request.call())
    }

    /// The configuration that it runs.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn config(&self) -> Result<Config, ClientError> {
        let value = self.get("/api/v1/config", &[])?;
        running_config(value).map_err(|error| self.foreign(&error.to_string()))
    }

    /// Flows, in a part of the order that is wanted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn flows(&self, state: FlowState, query: &FlowQuery) -> Result<FlowPage, ClientError> {
        let FlowQuery {
            sort,
            ascending,
            offset,
            limit,
            ingress,
            egress,
            class,
            contains,
        } = query;
        let mut asked = vec![
            ("state", word(state)),
            ("sort", word(sort)),
            ("ascending", ascending.to_string()),
            ("offset", offset.to_string()),
        ];
        asked.extend(limit.map(|limit| ("limit", limit.to_string())));
        let names = [
            ("ingress", ingress),
            ("egress", egress),
            ("class", class),
            ("contains", contains),
        ];
        let given = names.into_iter();
        asked.extend(given.filter_map(|(name, value)| Some((name, value.clone()?))));
        self.get("/api/v1/flows", &asked)
    }

    /// Asks for its configuration to be read again; the number of the reload before that one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn reload(&self) -> Result<u64, ClientError> {
        let mut request = self.agent.post(format!("{}/api/v1/reload", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
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

    /// An answer that makes no sense: of another version, or of something else altogether.
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

    /// What it says its version is, if it says so at all.
    fn version(&self) -> Option<String> {
        let mut request = self.agent.get(format!("{}/api/v1/status", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
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
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    let is_fine = |c: char| c.is_ascii_graphic();
    if token.is_empty() {
        Err(failed("its first line is empty".to_owned()))
    } else if token.chars().all(is_fine) {
        Ok(token.to_owned())
    } else {
        Err(failed(
            "a token has letters, digits and signs of ASCII only".to_owned(),
        ))
    }
}

/// A running configuration from its JSON, where a port that was taken away has the device `absent`,
/// which no file can name.
fn running_config(mut value: Value) -> Result<Config, serde_json::Error> {
    let mut absent = Vec::new();
    let ports = value.get_mut("ports").and_then(Value::as_array_mut);
    for (place, port) in ports.into_iter().flatten().enumerate() {
        if port.get("device").is_some_and(|device| device == "absent") {
            port["device"] = "sink".into();
            absent.push(place);
        }
    }
    let mut config: Config = serde_json::from_value(value)?;
    for place in absent {
        if let Some(port) = config.ports.get_mut(place) {
            port.device = Device::Absent;
        }
    }
    Ok(config)
}

/// The name that a value has in JSON.
fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// What an answer says went wrong: the `error` of an object, or the text itself on one line.
fn words(text: &str) -> Option<String> {
    let object: Option<Value> = serde_json::from_str(text).ok();
    let error = object.as_ref().and_then(|object| object.get("error"));
    let text = error.and_then(Value::as_str).unwrap_or(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// Answers one request after another as given; what was asked.
    fn answering(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let answer = |answer: &&str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 4_096];
                let length = stream.read(&mut asked).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8_lossy(&asked[..length]).into_owned()
            };
            answers.iter().map(answer).collect()
        });
        (address, server)
    }

    fn failure(answers: &'static [&'static str], token: Option<&str>) -> String {
        let (address, server) = answering(answers);
        let client = Client::new(&address, token.map(str::to_owned));
        let error = client.config().unwrap_err().to_string();
        server.join().unwrap();
        error.replace(&address, "ADDRESS")
    }

    #[test]
    fn a_switch_that_is_not_there_is_one_clear_message() {
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let client = Client::new(&address.to_string(), None);
        let error = client.config().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("no switch answers at http://{address}: ")),
            "{error}"
        );
        assert!(
            error.ends_with("start one with `vernierd`, or say with --url where it is"),
            "{error}"
        );
    }

    #[test]
    fn something_else_that_answers_is_not_accepted() {
        const CLOSE: &str = "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n";
        for answers in [
            &[CLOSE, CLOSE][..],
            &["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", CLOSE],
            &["SSH-2.0\r\n", CLOSE],
        ] {
            let error = failure(answers, None);
            let start = "what answers at http://ADDRESS is not a vernier of version";
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let error = failure(
            &[
                "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n[]",
                "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"version\": \"9.9.9\"}",
            ],
            None,
        );
        assert!(error.contains("is a vernier of version 9.9.9"), "{error}");
        assert!(error.ends_with("use the tool that came with the switch"));
    }

    #[test]
    fn a_token_that_is_missing_and_one_that_is_wrong_are_told_apart() {
        const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n";
        let missing = failure(&[REFUSED], None);
        assert!(
            missing.contains("wants a token; name the file"),
            "{missing}"
        );
        let wrong = failure(&[REFUSED], Some("secret"));
        assert!(wrong.contains("does not take the token"), "{wrong}");
        assert!(!wrong.contains("secret"), "{wrong}");
    }

    #[test]
    fn the_switchs_own_words_come_through() {
        let error = failure(
            &["HTTP/1.1 503 X\r\nconnection: close\r\n\r\n{\"error\": \"not\\nyet\"}"],
            None,
        );
        assert_eq!(error, "the switch at http://ADDRESS refuses: not yet");
    }

    #[test]
    fn tokens_and_queries_are_sent_as_they_must() {
        let (address, server) =
            answering(&["HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"after\": 7}"; 2]);
        let client = Client::new(&format!("http://{address}/"), Some("t0ken".to_owned()));
        assert_eq!(client.reload().unwrap(), 7);
        let flow = [("flow", "10.0.0.1:1>[::1]:2/tcp".to_owned())];
        let _: Value = client.get("/api/v1/flow", &flow).unwrap();
        let asked = server.join().unwrap();
        assert!(asked[0].starts_with("POST /api/v1/reload HTTP"));
        assert!(asked[0].to_lowercase().contains("x-vernier: reload\r\n"));
        for asked in &asked {
            let authorised = "authorization: bearer t0ken\r\n";
            assert!(asked.to_lowercase().contains(authorised), "{asked}");
        }
        assert!(
            !asked[1].lines().next().unwrap().contains("[::"),
            "{}",
            asked[1]
        );
    }

    #[test]
    fn a_token_is_the_first_line_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " 0123456789abcdef \nmore\n").unwrap();
        assert_eq!(read_token(file.path()).unwrap(), "0123456789abcdef");
        for bad in ["", "\n", "a b", "\u{fc}"] {
            std::fs::write(file.path(), bad).unwrap();
            assert!(read_token(file.path()).is_err(), "{bad:?}");
        }
        let error = read_token(Path::new("/nowhere/token")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/nowhere/token: cannot read the token")
        );
    }

    #[test]
    fn places_of_ports_that_went_survive() {
        let mut config = Config::demo().unwrap();
        let text = r#"{ "ports": [{ "name": "west", "device": "sink" }, { "name": "up",
            "device": "sink" }], "forwarding": { "mode": "bridge" } }"#;
        config = Config::parse(text, "v.json")
            .unwrap()
            .in_place_of(&config)
            .unwrap();
        let value = serde_json::to_value(&config).unwrap();
        assert_eq!(running_config(value).unwrap(), config);
    }
}
