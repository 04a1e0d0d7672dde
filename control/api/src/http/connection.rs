//! One connection, from its first byte to its last, with limits on everything a client can do.

use std::collections::BTreeMap;
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
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::answer::CHUNK_BYTES;
use super::answer::Refusal;
use crate::process;

/// Most bytes of a request's header, including its first line.
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1_024;

/// Most lines of a header.
pub(super) const HEADERS_MAX: usize = 64;

/// Most bytes of a request's body. No path needs a body; one within the limit is read and ignored.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1_024;

/// A client is disconnected if it has not sent a whole header or body within this time, or no further
/// request.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(10);

/// A client is disconnected if the kernel can send it nothing for this time.
const STALL_MAX: Duration = Duration::from_secs(10);

/// After this time a connection is closed at the end of the current answer, which a client that makes
/// progress still receives completely.
const CONNECTION_MAX: Duration = Duration::from_mins(1);

/// How long connections may finish their last answers when the server stops.
pub(super) const CLOSING_MAX: Duration = Duration::from_secs(2);

/// One connection, from its first byte to its last.
pub(super) async fn serve(
    stream: TcpStream,
    router: Router,
    slot: Slot,
    mut cut_off: CutOff,
    mut stopped: watch::Receiver<()>,
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
        // Counted where the slot was given away.
        _ = &mut cut_off => return,
        () = sleep(CONNECTION_MAX) => {}
        _ = stopped.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let too_late = async {
        drop(stopped.changed().await);
        sleep(CLOSING_MAX).await;
    };
    tokio::select! {
        ended = &mut connection => count_rejected(ended, &slot),
        _ = &mut cut_off => {}
        () = too_late => {}
    }
}

/// Counts a connection that was ended by a limit, but not one closed by the client.
fn count_rejected(ended: hyper::Result<()>, slot: &Slot) {
    let Err(error) = ended else {
        return;
    };
    let has_stalled = || {
        let cause = error.source()?.downcast_ref::<io::Error>()?;
        Some(cause.kind() == io::ErrorKind::TimedOut)
    };
    if error.is_parse_too_large() {
        process::rejected("too_large");
    } else if error.is_parse() {
        process::rejected("garbage");
    } else if error.is_timeout() && slot.is_asking() || has_stalled() == Some(true) {
        process::rejected("slow");
    }
}

/// Reads the whole request before processing it.
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

/// Whether reading a body failed, instead of exceeding the limit.
fn is_broken(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(<dyn Error>::is::<hyper::Error>)
}

/// The bytes of a connection. Notes progress in its slot, and fails if the client reads nothing for too
/// long.
struct Bytes {
    stream: TcpStream,
    slot: Arc<Slot>,
    stall_timer: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl Bytes {
    /// The client reads nothing now; an error after [`STALL_MAX`].
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

    /// Chunks are written in place: a copy would not be counted.
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

/// Most clients at once.
pub const CONNECTIONS_MAX: usize = 64;

/// All connections that have a slot.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    /// Connections since the start.
    admitted: u64,
    /// Current connections, by number.
    taken: BTreeMap<u64, Entry>,
}

/// A half of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Connections without a complete request.
    New,
    /// Connections that have completed a request.
    Asked,
}

#[derive(Debug)]
struct Entry {
    /// Its last progress: it was accepted, completed a request, or read bytes of its answer.
    progress: Instant,
    half: Half,
    /// Whether it has sent part of a request since then.
    is_asking: bool,
    /// Dropping it disconnects the client.
    _hold: oneshot::Sender<()>,
}

/// A slot; freed when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    number: u64,
    limit: ConnectionLimit,
}

/// Resolves when the slot is given to another connection.
pub(super) type CutOff = oneshot::Receiver<()>;

impl Slots {
    /// Frees a slot in a half that is full.
    fn make_room(&mut self, half: Half) {
        let half = (self.taken.iter()).filter(|(_, entry)| entry.half == half);
        if half.clone().count() < CONNECTIONS_MAX / 2 {
            return;
        }
        if let Some((&number, _)) = half.min_by_key(|(_, entry)| entry.progress) {
            self.taken.remove(&number);
            process::rejected("crowded");
        }
    }
}

impl ConnectionLimit {
    /// Gives a slot to a new connection, evicting another if necessary.
    pub(super) fn admit(&self) -> (Slot, CutOff) {
        let (hold, cut_off) = oneshot::channel();
        let mut slots = self.0.lock();
        slots.make_room(Half::New);
        let number = slots.admitted;
        slots.admitted += 1;
        let entry = Entry {
            progress: Instant::now(),
            half: Half::New,
            is_asking: true,
            _hold: hold,
        };
        slots.taken.insert(number, entry);
        process::connections(slots.taken.len());
        let limit = self.clone();
        (Slot { number, limit }, cut_off)
    }
}

impl Slot {
    /// Accesses its entry; returns `None` if it was evicted.
    fn entry<T>(&self, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.limit.0.lock().taken.get_mut(&self.number).map(look)
    }

    /// Notes that bytes of a request have arrived.
    pub(super) fn heard(&self) {
        self.entry(|entry| entry.is_asking = true);
    }

    /// Notes a complete request. The first one moves the connection to the half of those that have asked, evicting
    /// another if necessary.
    pub(super) fn asked(&self) {
        let mut slots = self.limit.0.lock();
        let entry = slots.taken.get(&self.number);
        if entry.is_some_and(|entry| entry.half == Half::New) {
            slots.make_room(Half::Asked);
        }
        if let Some(entry) = slots.taken.get_mut(&self.number) {
            entry.progress = Instant::now();
            entry.half = Half::Asked;
            entry.is_asking = false;
        }
    }

    /// Notes that the client read bytes of its answer.
    pub(super) fn took(&self) {
        self.entry(|entry| entry.progress = Instant::now());
    }

    /// Whether a request is expected: it has begun, or none has arrived at all.
    pub(super) fn is_asking(&self) -> bool {
        self.entry(|entry| entry.is_asking).unwrap_or(false)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.limit.0.lock();
        slots.taken.remove(&self.number);
        process::connections(slots.taken.len());
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    const HALF: usize = CONNECTIONS_MAX / 2;

    fn is_cut_off(cut_off: &mut CutOff) -> bool {
        cut_off.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    /// As many connections as one half has slots.
    fn half(limit: &ConnectionLimit, has_asked: bool) -> Vec<(Slot, CutOff)> {
        let admit = |_| {
            let entry = limit.admit();
            if has_asked {
                entry.0.asked();
            }
            entry
        };
        (0..HALF).map(admit).collect()
    }

    fn cut_off(connections: &mut [(Slot, CutOff)]) -> Vec<usize> {
        let connections = connections.iter_mut().enumerate();
        let gone = connections.filter_map(|(n, (_, cut_off))| is_cut_off(cut_off).then_some(n));
        gone.collect()
    }

    #[test]
    fn the_connection_longest_without_progress_makes_room() {
        let limit = ConnectionLimit::default();
        let mut connections = half(&limit, true);
        // The first has read since, and the second has asked again, so that the third is the one.
        sleep(Duration::from_millis(2));
        connections[0].0.took();
        connections[1].0.asked();
        let (newcomer, mut is_newcomer_out) = limit.admit();
        assert_eq!(cut_off(&mut connections), [0; 0]);
        newcomer.asked();
        assert_eq!(cut_off(&mut connections), [2]);
        assert!(!is_cut_off(&mut is_newcomer_out));
    }

    #[test]
    fn silent_connections_cut_off_only_silent_ones() {
        let limit = ConnectionLimit::default();
        let mut readers = half(&limit, true);
        sleep(Duration::from_millis(2));
        let mut silent = half(&limit, false);
        for newcomer in 0..HALF {
            silent.push(limit.admit());
            let expected: Vec<_> = (0..=newcomer).collect();
            assert_eq!(cut_off(&mut silent), expected);
        }
        assert_eq!(cut_off(&mut readers), [0; 0]);
        assert_eq!(limit.0.lock().taken.len(), CONNECTIONS_MAX);
    }

    #[test]
    fn a_free_slot_cuts_off_no_connection() {
        let limit = ConnectionLimit::default();
        for has_asked in [false, true] {
            let mut connections = half(&limit, has_asked);
            drop(connections.pop());
            connections.push(limit.admit());
            assert_eq!(cut_off(&mut connections), [0; 0]);
        }
        assert!(limit.0.lock().taken.is_empty());
    }

    #[test]
    fn a_request_is_expected_until_it_is_complete() {
        let limit = ConnectionLimit::default();
        let (slot, _cut_off) = limit.admit();
        assert!(slot.is_asking());
        slot.asked();
        assert!(!slot.is_asking());
        slot.heard();
        assert!(slot.is_asking());
    }
}
