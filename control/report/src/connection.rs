//! A connection to NATS as it is configured.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};
use contract::config::Nats;
use contract::secret::{self, SecretFault};

/// Most bytes of a file with a secret.
const SECRET_MAX: usize = 16 << 10;

/// Longest time between two attempts to connect.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How long an attempt, and an answer, may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Why there is no connection as configured. None of these goes away by itself.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A server's address is none.
    #[error("nats.servers: {server:?} is no server: {error}; write `nats://host:4222`")]
    Server {
        /// The address.
        server: String,
        /// What is wrong with it.
        error: io::Error,
    },
    /// A file cannot be used.
    #[error("nats.{key} {}: {fault}", file.display())]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
}

/// Servers, and how to be admitted by them.
#[derive(Debug, Clone)]
pub struct Connection {
    servers: Vec<ServerAddr>,
    nats: Nats,
    secret: Secret,
}

/// What is shown to a server.
#[derive(Clone)]
enum Secret {
    None,
    Credentials(String),
    Nkey(String),
    Token(String),
    Password(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Connection {
    /// Reads all secrets.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub fn of(nats: &Nats) -> Result<Self, ConnectionError> {
        let server = |server: &String| {
            server.parse().map_err(|error| ConnectionError::Server {
                server: server.clone(),
                error,
            })
        };
        let secret = if let Some(file) = &nats.credentials_file {
            Secret::Credentials(read("credentials_file", file)?)
        } else if let Some(file) = &nats.nkey_file {
            Secret::Nkey(read("nkey_file", file)?)
        } else if let Some(file) = &nats.token_file {
            Secret::Token(read("token_file", file)?)
        } else if let Some(file) = &nats.password_file {
            Secret::Password(read("password_file", file)?)
        } else {
            Secret::None
        };
        // The library reads these itself, when it connects.
        if let Some(file) = &nats.key_file {
            read("key_file", file)?;
        }
        for (key, file) in [("ca_file", &nats.ca_file), ("cert_file", &nats.cert_file)] {
            if let Some(file) = file {
                contract::file::open(file).map_err(|error| fault(key, file, &error.to_string()))?;
            }
        }
        let connection = Self {
            servers: nats.servers.iter().map(server).collect::<Result<_, _>>()?,
            nats: nats.clone(),
            secret,
        };
        connection.options()?;
        Ok(connection)
    }

    fn options(&self) -> Result<ConnectOptions, ConnectionError> {
        let Nats {
            ca_file,
            cert_file,
            key_file,
            credentials_file,
            user,
            ..
        } = &self.nats;
        let mut options = ConnectOptions::new()
            .connection_timeout(ANSWER_MAX)
            .request_timeout(Some(ANSWER_MAX))
            .ping_interval(Duration::from_secs(10))
            .reconnect_delay_callback(backoff);
        options = match self.secret.clone() {
            Secret::None => options,
            Secret::Credentials(text) => options.credentials(&(text + "\n")).map_err(|error| {
                let file = credentials_file.clone().unwrap_or_default();
                fault("credentials_file", &file, &error.to_string())
            })?,
            Secret::Nkey(seed) => options.nkey(seed),
            Secret::Token(token) => options.token(token),
            Secret::Password(password) => {
                options.user_and_password(user.clone().unwrap_or_default(), password)
            }
        };
        if let Some(file) = ca_file {
            options = options
                .add_root_certificates(file.clone())
                .require_tls(true);
        }
        if let (Some(cert), Some(key)) = (cert_file, key_file) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }

    /// Tries to connect, once; `name` is shown by the server. Once connected, the client connects again by itself, for ever,
    /// and calls `event`.
    ///
    /// # Errors
    /// In words, with what to do.
    pub async fn connect<F>(&self, name: &str, event: F) -> Result<async_nats::Client, String>
    where
        F: Fn(async_nats::Event) + Send + Sync + Clone + 'static,
    {
        let options = self.options().map_err(|error| error.to_string())?;
        let options = options.name(name).event_callback(move |happened| {
            let event = event.clone();
            async move { event(happened) }
        });
        let connected = options.connect(&self.servers[..]).await;
        connected.map_err(|error| {
            let hint = match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    "the server does not admit this user: see its credentials in the configuration (nats)"
                }
                ConnectErrorKind::Tls => "see nats.ca_file, and the name in the server's certificate",
                ConnectErrorKind::Dns => "see the host's name in nats.servers",
                _ if error.to_string().contains("certificate") => {
                    "see nats.ca_file, and the name in the server's certificate"
                }
                _ => "is the server running, and is nats.servers right?",
            };
            format!("cannot connect to NATS at {}: {error}; {hint}", self.nats.servers.join(", "))
        })
    }
}

/// Doubled from attempt to attempt.
pub fn backoff(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.min(6)).unwrap_or_default();
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(BACKOFF_MAX)
}

fn fault(key: &'static str, file: &Path, fault: &str) -> ConnectionError {
    ConnectionError::File {
        key,
        file: file.to_owned(),
        fault: fault.to_owned(),
    }
}

/// A secret's text, without the last line's end.
fn read(key: &'static str, file: &Path) -> Result<String, ConnectionError> {
    let text = secret::read_line(file, SECRET_MAX)
        .map_err(|error: SecretFault| fault(key, file, &error.to_string()))?;
    let is_fit = !text.is_empty() && text.len() <= SECRET_MAX;
    let text = String::from_utf8(text).ok().filter(|_| is_fit);
    text.ok_or_else(|| {
        let words = format!("expected a secret of 1 to {SECRET_MAX} bytes of UTF-8");
        fault(key, file, &words)
    })
}
