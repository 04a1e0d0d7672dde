//! What a NATS server sends, read with limits: the part of the [client protocol][1] that publishing to JetStream needs.
//!
//! [1]: https://docs.nats.io/reference/reference-protocols/nats-protocol

use serde::Deserialize;

/// Most bytes of a line. The longest is `INFO`, which lists the servers of a cluster.
pub(crate) const LINE_MAX: usize = 32 << 10;

/// Most bytes of a message. Answers of JetStream to a publication have a few hundred.
pub(crate) const MESSAGE_MAX: usize = 32 << 10;

/// Most characters of the server's words that are shown.
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

/// The server's `INFO`; other fields are ignored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Info {
    pub tls_required: bool,
    pub nonce: String,
    pub max_payload: u64,
    pub headers: bool,
    pub jetstream: bool,
}

/// A message to a subscription.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub subject: String,
    /// Status in the first line of headers, such as 503 where nobody listens.
    pub status: Option<u16>,
    pub payload: Vec<u8>,
}

/// Why the connection is given up.
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

/// Words of the server as they may be shown: no control characters, and not many.
pub(crate) fn clean(words: &str) -> String {
    let shown = words.chars().take(WORDS_MAX);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The first operation in `bytes`, and how many bytes it takes; `None` until all of it is there.
///
/// # Errors
/// Where it is none, or is too long, as soon as that can be known: no caller has to hold more than [`LINE_MAX`] and
/// [`MESSAGE_MAX`] bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Frame, usize)>, FrameFault> {
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
        let (frame, size) = read(text.as_bytes()).unwrap().unwrap();
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
        let fault = |text: &[u8]| read(text).unwrap_err();
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
        assert_eq!(read(&vec![b'x'; LINE_MAX - 1]), Ok(None));
    }

    proptest! {
        /// No bytes make it panic or wait for more than the limits; what was read does not depend on what follows.
        #[test]
        fn any_bytes_are_read_or_refused(
            head in prop::sample::select(vec!["", "MSG a 1 ", "HMSG a 1 ", "INFO ", "-ERR "]),
            tail in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes: Vec<u8> = head.bytes().chain(tail).collect();
            if let Ok(Some((frame, size))) = read(&bytes) {
                prop_assert!(size <= bytes.len());
                prop_assert_eq!(read(&bytes[..size]), Ok(Some((frame, size))));
            }
            let longest = [&bytes[..], &vec![b'x'; LINE_MAX + MESSAGE_MAX + 4]].concat();
            prop_assert_ne!(read(&longest), Ok(None));
        }
    }
}
