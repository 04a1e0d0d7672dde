//! A connection of a sender to a NATS server: publishes to JetStream, one message after the other, and holds a few KiB of what
//! the server sends, whatever that is. Why it is not the library that stations use: [decisions](../../docs/decisions/station.md).

use std::time::Duration;

use async_nats::ServerAddr;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::frame::{self, Frame, FrameFault, Info, LINE_MAX, MESSAGE_MAX, Message};

/// How long an attempt, and an answer, may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Interval of pings while there is nothing to send.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Most bytes from the server between two publications: answers and pings take a few hundred.
const UNASKED_MAX: usize = 256 << 10;

/// Bytes in plain or by TLS.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Credentials, as `CONNECT` has them.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Admission {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nkey: Option<String>,
    /// Of the server's nonce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
}

#[derive(Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the protocol's CONNECT has these"
)]
struct Connect<'n> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'n str,
    lang: &'static str,
    version: &'static str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(flatten)]
    admission: Admission,
}

/// Why there is no connection, or why it was given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientFault {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Name(std::io::Error),
    #[error("{0}")]
    Frame(#[from] FrameFault),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server did not answer within {} s", ANSWER_MAX.as_secs())]
    Silent,
    #[error("the server sent more than {UNASKED_MAX} bytes unasked")]
    Unasked,
    #[error("the server says: {0}")]
    Said(String),
    #[error("the server is too old: it knows no headers (NATS 2.2 and later do)")]
    Old,
    #[error("TLS: {0}")]
    Tls(String),
    #[error("{0}")]
    Secret(String),
}

impl ClientFault {
    /// Whether the server refused the credentials.
    pub(crate) fn is_refusal(&self) -> bool {
        let words = match self {
            Self::Said(words) => words.to_ascii_lowercase(),
            _ => return false,
        };
        words.starts_with("authorization violation") || words.contains("authentication")
    }
}

/// The outcome of a publication.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// JetStream has stored it.
    Stored,
    /// No stream takes the subject.
    NoStream,
    /// It is greater than the server takes.
    TooGreat(u64),
    /// The server's words.
    Refused(String),
}

/// An answer of JetStream to a publication.
#[derive(Deserialize)]
struct Acknowledgement {
    #[serde(default)]
    stream: String,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    description: String,
}

/// A connection; once admitted, subscribed to its answers.
pub struct Client {
    stream: Box<dyn Duplex>,
    /// Read and not parsed yet, at most a line and a message.
    buffer: Vec<u8>,
    /// Bytes to write. A write that is dropped half-way is continued by the next.
    out: Vec<u8>,
    info: Info,
    /// What subjects of answers begin with.
    inbox: String,
    published: u64,
    unasked_bytes: usize,
    /// The server's last error, which explains a missing answer.
    said: Option<String>,
}

impl Client {
    /// Connects to `server` and reads its `INFO`.
    ///
    /// # Errors
    /// [`ClientFault`].
    pub(crate) async fn begin(server: &ServerAddr) -> Result<Self, ClientFault> {
        let host = server.host().trim_start_matches('[').trim_end_matches(']');
        let addresses = lookup_host((host, server.port())).await;
        let addresses: Vec<_> = addresses.map_err(ClientFault::Name)?.collect();
        let stream = TcpStream::connect(&addresses[..]).await?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream: Box::new(stream),
            buffer: Vec::new(),
            out: Vec::new(),
            info: Info::default(),
            inbox: String::new(),
            published: 0,
            unasked_bytes: 0,
            said: None,
        };
        match client.next().await? {
            Frame::Info(info) => client.info = *info,
            other => return Err(unexpected(&other)),
        }
        Ok(client)
    }

    /// Whether the server requires TLS.
    pub(crate) fn demands_tls(&self) -> bool {
        self.info.tls_required
    }

    /// The server's nonce, which credentials with a key sign.
    pub(crate) fn nonce(&self) -> &str {
        &self.info.nonce
    }

    /// Continues by TLS. The server has to present a certificate for `host`.
    pub(crate) async fn secure(self, host: &str, tls: &TlsConnector) -> Result<Self, ClientFault> {
        let fault = |error: &dyn std::fmt::Display| ClientFault::Tls(error.to_string());
        // Bytes in plain that are read as if they had come by TLS may be an attacker's.
        if !self.buffer.is_empty() {
            return Err(fault(&"the server sent more than INFO in plain"));
        }
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let host = ServerName::try_from(host).map_err(|error| fault(&error))?;
        let secured = tls.connect(host, self.stream).await;
        Ok(Self {
            stream: Box::new(secured.map_err(|error| fault(&error))?),
            ..self
        })
    }

    /// Presents the credentials, and subscribes to answers.
    pub(crate) async fn admit(
        mut self,
        name: &str,
        inbox: &str,
        admission: Admission,
    ) -> Result<Self, ClientFault> {
        if !self.info.headers {
            return Err(ClientFault::Old);
        }
        let connect = Connect {
            verbose: false,
            pedantic: false,
            tls_required: false,
            name,
            lang: "vernier",
            version: env!("CARGO_PKG_VERSION"),
            protocol: 1,
            echo: false,
            headers: true,
            no_responders: true,
            admission,
        };
        let connect = serde_json::to_string(&connect).map_err(std::io::Error::from)?;
        inbox.clone_into(&mut self.inbox);
        let hello = format!("CONNECT {connect}\r\nSUB {inbox}.* 1\r\nPING\r\n");
        self.out.extend_from_slice(hello.as_bytes());
        self.flush().await?;
        loop {
            match self.next().await? {
                Frame::Pong => return Ok(self),
                Frame::Error(words) => return Err(ClientFault::Said(words)),
                Frame::Info(_) | Frame::Ok | Frame::Ping => {}
                other @ Frame::Message(_) => return Err(unexpected(&other)),
            }
        }
    }

    /// Whether the server has JetStream itself.
    pub(crate) fn has_jetstream(&self) -> bool {
        self.info.jetstream
    }

    /// Publishes a message and waits for JetStream's answer.
    ///
    /// # Errors
    /// Where the connection is of no use any more.
    pub(crate) async fn publish(
        &mut self,
        subject: &str,
        id: &str,
        payload: &[u8],
    ) -> Result<Answer, ClientFault> {
        let headers = format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\n\r\n");
        let size = headers.len() + payload.len();
        if self.info.max_payload > 0 && size as u64 > self.info.max_payload {
            return Ok(Answer::TooGreat(self.info.max_payload));
        }
        self.published += 1;
        self.unasked_bytes = 0;
        self.said = None;
        let reply = format!("{}.{}", self.inbox, self.published);
        let head = format!(
            "HPUB {subject} {reply} {} {size}\r\n{headers}",
            headers.len()
        );
        self.out.extend_from_slice(head.as_bytes());
        self.out.extend_from_slice(payload);
        self.out.extend_from_slice(b"\r\n");
        let answer = timeout(ANSWER_MAX, async {
            self.flush().await?;
            loop {
                if let Some(message) = self.step().await?
                    && message.subject == reply
                {
                    return Ok::<_, ClientFault>(message);
                }
                // The server closes the connection after its words, but for what the user may not do.
                if let Some(words) = self.said.take() {
                    return Err(ClientFault::Said(words));
                }
            }
        });
        match answer.await {
            Ok(message) => Ok(read(&message?)),
            Err(_) => Err(ClientFault::Silent),
        }
    }

    /// Answers pings of the server, and pings it, until the connection fails. May be dropped at any time.
    pub(crate) async fn idle(&mut self) -> ClientFault {
        loop {
            match timeout(PING_EVERY, self.step()).await {
                Ok(Ok(_)) => {
                    if let Some(words) = self.said.take() {
                        return ClientFault::Said(words);
                    }
                }
                Ok(Err(fault)) => return fault,
                Err(_) => {
                    self.out.extend_from_slice(b"PING\r\n");
                    match timeout(ANSWER_MAX, self.step()).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(fault)) => return fault,
                        Err(_) => return ClientFault::Silent,
                    }
                }
            }
        }
    }

    /// Reads one operation, and answers a ping. Returns a message.
    async fn step(&mut self) -> Result<Option<Message>, ClientFault> {
        self.flush().await?;
        match self.next().await? {
            Frame::Ping => {
                self.out.extend_from_slice(b"PONG\r\n");
                self.flush().await?;
            }
            Frame::Info(info) => self.info = *info,
            Frame::Error(words) => self.said = Some(words),
            Frame::Message(message) => return Ok(Some(message)),
            Frame::Pong | Frame::Ok => {}
        }
        Ok(None)
    }

    /// Returns the next operation. A partly read one stays in the buffer if the future is dropped.
    async fn next(&mut self) -> Result<Frame, ClientFault> {
        loop {
            if let Some((frame, size)) = frame::read(&self.buffer)? {
                self.buffer.drain(..size);
                return Ok(frame);
            }
            if self.unasked_bytes > UNASKED_MAX {
                return Err(ClientFault::Unasked);
            }
            let mut read = [0; 4 << 10];
            let bytes = self.stream.read(&mut read).await?;
            if bytes == 0 {
                return Err(ClientFault::Closed);
            }
            self.unasked_bytes += bytes;
            self.buffer.extend_from_slice(&read[..bytes]);
            debug_assert!(self.buffer.len() <= LINE_MAX + MESSAGE_MAX + (4 << 10));
        }
    }

    async fn flush(&mut self) -> Result<(), ClientFault> {
        while !self.out.is_empty() {
            let written = self.stream.write(&self.out).await?;
            if written == 0 {
                return Err(ClientFault::Closed);
            }
            self.out.drain(..written);
        }
        Ok(self.stream.flush().await?)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

/// Reads JetStream's answer to a publication.
fn read(message: &Message) -> Answer {
    if message.status == Some(503) {
        return Answer::NoStream;
    }
    match serde_json::from_slice(&message.payload) {
        Ok(Acknowledgement {
            error: Some(error), ..
        }) => Answer::Refused(frame::clean(&error.description)),
        Ok(Acknowledgement { stream, .. }) if !stream.is_empty() => Answer::Stored,
        _ => Answer::Refused("an answer that is none of JetStream's".to_owned()),
    }
}

fn unexpected(frame: &Frame) -> ClientFault {
    let words = format!("{frame:?}");
    ClientFault::Frame(FrameFault::Protocol(frame::clean(&words)))
}
