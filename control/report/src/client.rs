//! A sender's connection to a NATS server. It publishes to JetStream, one message at a time, and never buffers more
//! than a few KiB from the server. Why stations use another library: [decisions](../../docs/decisions/station.md).

use std::time::Duration;

use async_nats::ServerAddr;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Longest time for an attempt, and for an answer.
pub const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Interval of pings while there is nothing to send.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Most bytes from the server between two publications; answers and pings take a few hundred.
const UNASKED_MAX: usize = 256 << 10;

/// The byte stream, plain or by TLS.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Why connecting failed, or why the connection was closed.
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
    /// Whether the server rejected the credentials.
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
    /// No stream receives the subject.
    NoStream,
    /// It exceeds the server's limit.
    TooGreat(u64),
    /// The server's message.
    Refused(String),
}

/// JetStream's answer to a publication.
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

/// A connection; once admitted, it is subscribed to its answers.
pub struct Client {
    stream: Box<dyn Duplex>,
    /// Read and not parsed yet, at most a line and a message.
    buffer: Vec<u8>,
    /// Bytes to write. If a write is dropped half-way, the next one continues it.
    out: Vec<u8>,
    /// The server's latest description of itself.
    pub(crate) info: Info,
    /// Prefix of subjects for answers.
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

    /// Switches to TLS. The server must present a certificate for `host`.
    pub(crate) async fn secure(self, host: &str, tls: &TlsConnector) -> Result<Self, ClientFault> {
        let fault = |error: &dyn std::fmt::Display| ClientFault::Tls(error.to_string());
        // Plain bytes that were read as if they had arrived by TLS may come from an attacker.
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

    /// Presents the credentials, as further fields of `CONNECT`, and subscribes to answers.
    pub(crate) async fn admit(
        mut self,
        name: &str,
        inbox: &str,
        credentials: Value,
    ) -> Result<Self, ClientFault> {
        if !self.info.headers {
            return Err(ClientFault::Old);
        }
        let mut connect = json!({
            "verbose": false,
            "pedantic": false,
            "tls_required": false,
            "name": name,
            "lang": "vernier",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1,
            "echo": false,
            "headers": true,
            "no_responders": true,
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut connect, credentials) {
            fields.extend(more);
        }
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

    /// Publishes a message and waits for JetStream's answer.
    ///
    /// # Errors
    /// The connection is unusable afterwards.
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
                // The server closes the connection after its message, except for permission violations.
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

    /// Answers the server's pings, and pings it, until the connection fails. May be dropped at any time.
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

    /// Reads one operation, and answers it if it is a ping. Returns a message.
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
            if let Some((frame, size)) = read_frame(&self.buffer)? {
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
        }) => Answer::Refused(clean(&error.description)),
        Ok(Acknowledgement { stream, .. }) if !stream.is_empty() => Answer::Stored,
        _ => Answer::Refused("an answer that is none of JetStream's".to_owned()),
    }
}

fn unexpected(frame: &Frame) -> ClientFault {
    let words = format!("{frame:?}");
    ClientFault::Frame(FrameFault::Protocol(clean(&words)))
}

/// Most bytes of a line. The longest is `INFO`, which lists the servers of a cluster.
pub(crate) const LINE_MAX: usize = 32 << 10;

/// Most bytes of a message. Answers of JetStream to a publication have a few hundred.
pub(crate) const MESSAGE_MAX: usize = 32 << 10;

/// Most characters shown of the server's messages.
const WORDS_MAX: usize = 200;

/// One operation of the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Info(Box<Info>),
    Ping,
    Pong,
    Ok,
    /// `-ERR`, without its quotes.
    Error(String),
    Message(Message),
}

/// The server's `INFO`, without fields of no interest.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Info {
    pub tls_required: bool,
    /// The nonce that credentials with a key sign.
    pub nonce: String,
    pub max_payload: u64,
    pub headers: bool,
    /// Whether the server has JetStream itself.
    pub jetstream: bool,
}

/// A message to a subscription.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub subject: String,
    /// Status in the first line of headers, such as 503 if there is no subscriber.
    pub status: Option<u16>,
    pub payload: Vec<u8>,
}

/// Why the connection is closed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum FrameFault {
    #[error("the server sends a line of more than {LINE_MAX} bytes")]
    Line,
    #[error(
        "the server announces {0} bytes as an answer to a report, at most {MESSAGE_MAX} are read"
    )]
    Message(u64),
    #[error("the server does not speak the protocol of NATS: {0}")]
    Protocol(String),
}

/// Cleans a message of the server for display: no control characters, limited length.
pub(crate) fn clean(words: &str) -> String {
    let shown = words.chars().take(WORDS_MAX);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Parses the first operation in `bytes`, and returns it with its length; `None` until it is complete.
///
/// # Errors
/// If it is invalid or too long, as early as that is known: no caller needs to buffer more than [`LINE_MAX`] and
/// [`MESSAGE_MAX`] bytes.
pub(crate) fn read_frame(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameFault> {
    let within = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        return if within.len() < LINE_MAX {
            Ok(None)
        } else {
            Err(FrameFault::Line)
        };
    };
    let (line, behind) = (&bytes[..end], end + 2);
    let no = || FrameFault::Protocol(clean(&String::from_utf8_lossy(line)));
    let text = std::str::from_utf8(line).map_err(|_| no())?;
    let (operation, arguments) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let frame = match operation {
        "PING" => Frame::Ping,
        "PONG" => Frame::Pong,
        "+OK" => Frame::Ok,
        "-ERR" => Frame::Error(clean(arguments.trim_matches('\''))),
        "INFO" => Frame::Info(serde_json::from_str(arguments).map_err(|_| no())?),
        "MSG" | "HMSG" => {
            let has_headers = operation == "HMSG";
            return message(&bytes[behind..], arguments, has_headers, no)
                .map(|read| read.map(|(message, size)| (Frame::Message(message), behind + size)));
        }
        _ => return Err(no()),
    };
    Ok(Some((frame, behind)))
}

/// `SUBJECT SID [REPLY] [HEADER BYTES] BYTES`, and what follows.
fn message(
    bytes: &[u8],
    arguments: &str,
    has_headers: bool,
    no: impl Fn() -> FrameFault,
) -> Result<Option<(Message, usize)>, FrameFault> {
    let mut arguments: Vec<&str> = arguments.split_ascii_whitespace().collect();
    let mut size = || -> Option<u64> { arguments.pop()?.parse().ok() };
    let total = size().ok_or_else(&no)?;
    let headers = if has_headers {
        size().ok_or_else(&no)?
    } else {
        0
    };
    if !matches!(arguments.len(), 2 | 3) || headers > total {
        return Err(no());
    }
    let too_long = |_| FrameFault::Message(total);
    let total_bytes = usize::try_from(total).map_err(too_long)?;
    if total_bytes > MESSAGE_MAX {
        return Err(FrameFault::Message(total));
    }
    let Some(body) = bytes.get(..total_bytes + 2) else {
        return Ok(None);
    };
    // Less than the total.
    let (headers, payload) =
        body[..total_bytes].split_at(usize::try_from(headers).unwrap_or_default());
    let status = std::str::from_utf8(headers).ok().and_then(|headers| {
        let status = headers.strip_prefix("NATS/1.0 ")?.get(..3)?;
        status.parse().ok()
    });
    let message = Message {
        subject: arguments[0].to_owned(),
        status,
        payload: payload.to_owned(),
    };
    Ok(Some((message, total_bytes + 2)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Frame {
        let (frame, size) = read_frame(text.as_bytes()).unwrap().unwrap();
        assert_eq!(size, text.len());
        frame
    }

    #[test]
    fn operations_are_read_as_servers_write_them() {
        assert_eq!(one("PING\r\n"), Frame::Ping);
        assert_eq!(one("+OK\r\n"), Frame::Ok);
        assert_eq!(
            one("-ERR 'Authorization Violation'\r\n"),
            Frame::Error("Authorization Violation".to_owned())
        );
        let Frame::Info(info) =
            one("INFO {\"server_id\":\"N\",\"max_payload\":1048576,\"headers\":true} \r\n")
        else {
            panic!("no INFO");
        };
        assert_eq!((info.max_payload, info.headers), (1_048_576, true));
        let message = |subject: &str, status, payload: &str| {
            Frame::Message(Message {
                subject: subject.to_owned(),
                status,
                payload: payload.as_bytes().to_owned(),
            })
        };
        assert_eq!(
            one("MSG a.b 1 5\r\nhello\r\n"),
            message("a.b", None, "hello")
        );
        assert_eq!(one("MSG a 1 reply 0\r\n\r\n"), message("a", None, ""));
        assert_eq!(
            one("HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
            message("a", Some(503), "")
        );
    }

    #[test]
    fn what_is_too_long_or_no_operation_is_refused_at_once() {
        let fault = |text: &[u8]| read_frame(text).unwrap_err();
        assert_eq!(fault(&vec![b'x'; LINE_MAX]), FrameFault::Line);
        for line in ["MSG a 1 8000000000000000000\r\n", "HMSG a 1 10 32769\r\n"] {
            let words = fault(line.as_bytes()).to_string();
            assert!(words.contains("at most 32768 are read"), "{words}");
        }
        for line in [
            "MSG a 1\r\n",
            "MSG a 1 x\r\n",
            "HMSG a 1 9 8\r\n",
            "HTTP/1.1 400\r\n",
            "INFO x\r\n",
        ] {
            let words = fault(line.as_bytes()).to_string();
            assert!(words.contains("does not speak the protocol"), "{words}");
        }
        assert_eq!(read_frame(&vec![b'x'; LINE_MAX - 1]), Ok(None));
    }

    proptest! {
        /// No bytes make it panic or wait for more than the limits; what was read does not depend on what follows.
        #[test]
        fn any_bytes_are_read_or_refused(
            head in prop::sample::select(vec!["", "MSG a 1 ", "HMSG a 1 ", "INFO ", "-ERR "]),
            tail in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes: Vec<u8> = head.bytes().chain(tail).collect();
            if let Ok(Some((frame, size))) = read_frame(&bytes) {
                prop_assert!(size <= bytes.len());
                prop_assert_eq!(read_frame(&bytes[..size]), Ok(Some((frame, size))));
            }
            let longest = [&bytes[..], &vec![b'x'; LINE_MAX + MESSAGE_MAX + 4]].concat();
            prop_assert_ne!(read_frame(&longest), Ok(None));
        }
    }
}
