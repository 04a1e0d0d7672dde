//! Connects to NATS as configured.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use contract::config::Nats;
use contract::secret::{self, SecretFault};
pub use control::running::{BACKOFF_MAX, backoff};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::{ANSWER_MAX, Client, ClientFault};

/// Most bytes of a file with a secret.
const SECRET_MAX: usize = 16 << 10;

const NOT_ADMITTED: &str =
    "the server does not admit this user: see its credentials in the configuration (nats)";
const SEE_TLS: &str = "see nats.ca_file, and the name in the server's certificate";
const SEE_NAME: &str = "see the host's name in nats.servers";
const SEE_SERVER: &str = "is the server running, and is nats.servers right?";

/// Why the configured connection is impossible. None of these faults goes away by itself.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A server's address is invalid.
    #[error("nats.servers: {server:?} is no server: {error}; write `nats://host:4222`")]
    Server {
        /// The address.
        server: String,
        /// The reason.
        error: io::Error,
    },
    /// A file is unusable.
    #[error("nats.{key} {}: {fault}", file.display())]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// The reason.
        fault: String,
    },
}

/// The configured servers and credentials.
#[derive(Debug, Clone)]
pub struct Connection {
    servers: Vec<ServerAddr>,
    nats: Nats,
    secret: Secret,
}

/// Credentials for a server.
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
        // The library reads these itself when it connects.
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
        if let Secret::Credentials(_) = connection.secret {
            let file = nats.credentials_file.clone().unwrap_or_default();
            let signed = connection.credentials("");
            signed.map_err(|error| fault("credentials_file", &file, &error.to_string()))?;
        }
        Ok(connection)
    }

    fn options(&self) -> Result<ConnectOptions, ConnectionError> {
        let nats = &self.nats;
        let mut options = ConnectOptions::new()
            .connection_timeout(ANSWER_MAX)
            .request_timeout(Some(ANSWER_MAX))
            .ping_interval(Duration::from_secs(10))
            // Secrets are only shown to configured servers.
            .ignore_discovered_servers()
            .reconnect_delay_callback(backoff);
        options = match self.secret.clone() {
            Secret::None => options,
            Secret::Credentials(text) => options.credentials(&(text + "\n")).map_err(|error| {
                let file = nats.credentials_file.clone().unwrap_or_default();
                fault("credentials_file", &file, &error.to_string())
            })?,
            Secret::Nkey(seed) => options.nkey(seed),
            Secret::Token(token) => options.token(token),
            Secret::Password(password) => {
                options.user_and_password(nats.user.clone().unwrap_or_default(), password)
            }
        };
        if let Some(file) = &nats.ca_file {
            options = options.add_root_certificates(file.clone());
            options = options.require_tls(true);
        }
        if let (Some(cert), Some(key)) = (&nats.cert_file, &nats.key_file) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }

    /// Tries to connect, once, under `name`. Once connected, the client reconnects by itself, for ever, and calls
    /// `event`.
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
                    NOT_ADMITTED
                }
                ConnectErrorKind::Tls => SEE_TLS,
                ConnectErrorKind::Dns => SEE_NAME,
                _ if error.to_string().contains("certificate") => SEE_TLS,
                _ => SEE_SERVER,
            };
            let servers = self.nats.servers.join(", ");
            format!("cannot connect to NATS at {servers}: {error}; {hint}")
        })
    }

    /// Connects a sender to the first server that admits it, under `name`; each attempt starts with another server.
    /// Answers arrive at subjects below `inbox`.
    ///
    /// # Errors
    /// In words, with what to do.
    pub async fn open(&self, name: &str, inbox: &str, attempt: usize) -> Result<Client, String> {
        let mut words = String::new();
        for n in 0..self.servers.len() {
            let place = (attempt + n) % self.servers.len();
            let (server, address) = (&self.servers[place], &self.nats.servers[place]);
            let is_tls = server.tls_required()
                || self.nats.ca_file.is_some()
                || self.nats.cert_file.is_some();
            let opened = timeout(ANSWER_MAX, async {
                let begun = Client::begin(server).await?;
                let begun = if is_tls || begun.info.tls_required {
                    begun.secure(server.host(), &self.tls()?).await?
                } else {
                    begun
                };
                let credentials = self.credentials(&begun.info.nonce)?;
                begun.admit(name, inbox, credentials).await
            });
            let fault = match opened.await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(fault)) => fault,
                Err(_) => ClientFault::Silent,
            };
            let hint = match &fault {
                fault if fault.is_refusal() => NOT_ADMITTED,
                ClientFault::Tls(_) => SEE_TLS,
                ClientFault::Name(_) => SEE_NAME,
                _ => SEE_SERVER,
            };
            words = format!("cannot connect to NATS at {address}: {fault}; {hint}");
        }
        Err(words)
    }

    /// Credentials for a server that sent this nonce, as fields of `CONNECT`.
    fn credentials(&self, nonce: &str) -> Result<Value, ClientFault> {
        let fault = |key: &str, why: &str| ClientFault::Secret(format!("nats.{key}: {why}"));
        let sign = |key: &str, seed: &str| {
            let sign = || {
                let pair = nkeys::KeyPair::from_seed(seed.trim())?;
                let signature = BASE64_URL_SAFE_NO_PAD.encode(pair.sign(nonce.as_bytes())?);
                Ok::<_, nkeys::error::Error>((pair.public_key(), signature))
            };
            sign().map_err(|error| fault(key, &error.to_string()))
        };
        Ok(match &self.secret {
            Secret::None => json!({}),
            Secret::Token(token) => json!({ "auth_token": token }),
            Secret::Password(password) => json!({ "user": self.nats.user, "pass": password }),
            Secret::Nkey(seed) => {
                let (public, signature) = sign("nkey_file", seed)?;
                json!({ "nkey": public, "sig": signature })
            }
            Secret::Credentials(text) => {
                let part = |name: &str| {
                    let (_, behind) = text.split_once(&format!("BEGIN {name}"))?;
                    let mut lines = behind.lines().skip(1).map(str::trim);
                    lines.find(|line| !line.is_empty())
                };
                let parts = part("NATS USER JWT").zip(part("USER NKEY SEED"));
                let (jwt, seed) =
                    parts.ok_or_else(|| fault("credentials_file", "it has no JWT and seed"))?;
                json!({ "jwt": jwt, "sig": sign("credentials_file", seed)?.1 })
            }
        })
    }

    /// Returns TLS as configured. Reads the certificates each time.
    fn tls(&self) -> Result<TlsConnector, ClientFault> {
        let fault = |what: &str, error: &dyn std::fmt::Display| {
            ClientFault::Tls(format!("{what}: {error}"))
        };
        let certificates = |key: &str, file: &Path| -> Result<Vec<CertificateDer<'static>>, _> {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            read.map_err(|error| fault(key, &error))
        };
        let mut roots = RootCertStore::empty();
        if let Some(file) = &self.nats.ca_file {
            for certificate in certificates("nats.ca_file", file)? {
                let added = roots.add(certificate);
                added.map_err(|error| fault("nats.ca_file", &error))?;
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| fault("versions", &error))?
            .with_root_certificates(roots);
        let config = if let (Some(cert), Some(key)) = (&self.nats.cert_file, &self.nats.key_file) {
            let key = PrivateKeyDer::from_pem_file(key);
            let key = key.map_err(|error| fault("nats.key_file", &error))?;
            let own = builder.with_client_auth_cert(certificates("nats.cert_file", cert)?, key);
            own.map_err(|error| fault("nats.cert_file", &error))?
        } else {
            builder.with_no_client_auth()
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn fault(key: &'static str, file: &Path, fault: &str) -> ConnectionError {
    ConnectionError::File {
        key,
        file: file.to_owned(),
        fault: fault.to_owned(),
    }
}

/// Reads a secret from a file, without the final newline.
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
