//! One connection, from its first byte to its last, with limits on all that a client may do to it.

use std::error::Error;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::connection_limit::{CutOff, Slot};
use super::in_flight::CHUNK_BYTES;
use super::refusal::Refusal;
use crate::process;

/// Most bytes of a request's header, its first line included.
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1_024;

/// Most lines of a header.
pub(super) const HEADERS_MAX: usize = 64;

/// Most bytes of a request's body. No path needs a body; one of this size is read and ignored.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1_024;

/// A client that has not sent a whole header, or a whole body, in this time is cut off; so is one
/// without a further request.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(10);

/// A client for which the kernel takes no byte of its answer for this time is cut off.
const STALL_MAX: Duration = Duration::from_secs(10);

/// After this time a connection is closed at the end of the present answer, which a client that
/// makes progress gets as a whole.
const CONNECTION_MAX: Duration = Duration::from_mins(1);

/// How long connections may still write their last answers when the server ends.
pub(super) const CLOSING_MAX: Duration = Duration::from_secs(2);

/// One connection, from its first byte to its last.
pub(super) async fn serve(
    stream: TcpStream,
    router: Router,
    slot: Slot,
    mut cut_off: CutOff,
    mut stopped: watch::Receiver<bool>,
) {
    let slot = Arc::new(slot);
    let bytes = Bytes {
        stream,
        slot: Arc::clone(&slot),
        stall_timer: Box::pin(sleep(STALL_MAX)),
        is_stalled: false,
    };
    let router = TowerToHyperService::new(router);
    let of_request = Arc::clone(&slot);
    let service = service_fn(move |mut request: hyper::Request<_>| {
        request.extensions_mut().insert(Arc::clone(&of_request));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(CHUNK_BYTES)
        .serve_connection(TokioIo::new(bytes), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = &mut connection => return count_rejected(ended, &slot),
        // Counted where the slot was given to another.
        _ = &mut cut_off => return,
        () = sleep(CONNECTION_MAX) => {}
        _ = stopped.wait_for(|&stopped| stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let too_late = async {
        drop(stopped.wait_for(|&stopped| stopped).await);
        sleep(CLOSING_MAX).await;
    };
    tokio::select! {
        ended = &mut connection => count_rejected(ended, &slot),
        _ = &mut cut_off => {}
        () = too_late => {}
    }
}

/// Counts a connection that ended by a limit; not one that the client closed.
fn count_rejected(ended: hyper::Result<()>, slot: &Slot) {
    let Err(error) = ended else {
        return;
    };
    let has_stalled = || {
        let cause = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
    };
    if error.is_parse_too_large() {
        process::rejected("too_large");
    } else if error.is_parse() {
        process::rejected("garbage");
    } else if error.is_timeout() && slot.is_asking() || has_stalled() {
        process::rejected("slow");
    }
}

/// Reads the whole request before anything is done for it.
pub(super) async fn receive(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = timeout(REQUEST_MAX, to_bytes(body, BODY_BYTES_MAX)).await;
    let (reason, status, error) = match body {
        Ok(Ok(body)) => {
            if let Some(slot) = parts.extensions.get::<Arc<Slot>>() {
                slot.asked();
            }
            return next.run(Request::from_parts(parts, Body::from(body))).await;
        }
        Ok(Err(error)) if is_broken(&error) => (
            "garbage",
            StatusCode::BAD_REQUEST,
            "the request's body ends early, or is malformed".to_owned(),
        ),
        Ok(Err(_)) => (
            "too_large",
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("expected a body of {BODY_BYTES_MAX} bytes at most"),
        ),
        Err(_) => (
            "slow",
            StatusCode::REQUEST_TIMEOUT,
            format!("expected the whole request within {REQUEST_MAX:?}"),
        ),
    };
    process::rejected(reason);
    Refusal::new(status, error)
        .with(header::CONNECTION, "close")
        .into_response()
}

/// Whether a body could not be read, rather than being too large.
fn is_broken(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<hyper::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The bytes of a connection: notes progress in its slot, and fails when the client takes none for too long.
struct Bytes {
    stream: TcpStream,
    slot: Arc<Slot>,
    stall_timer: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl Bytes {
    /// The client takes nothing now: an error after [`STALL_MAX`].
    fn stall<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if !self.is_stalled {
            self.is_stalled = true;
            self.stall_timer.as_mut().reset(Instant::now() + STALL_MAX);
        }
        ready!(self.stall_timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Bytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.slot.heard();
        }
        read
    }
}

impl AsyncWrite for Bytes {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, chunks);
        if written.is_pending() {
            return self.stall(context);
        }
        self.is_stalled = false;
        self.slot.took();
        written
    }

    /// Chunks are written from where they are: a copy would not be counted.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
