//! Limits the bytes of answers in flight: written, but not yet read by their clients. The limit is shared
//! by all connections and grows with the number of segments; an answer beyond it is refused.
//!
//! An answer is a list of chunks. Each counts from its allocation until the kernel has taken it, so that a
//! stalled client holds only the rest of its answer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use contract::limits::answer_bytes_max;
use hyper::body::{Frame, SizeHint};
use mime::Mime;
use records::answers::Problem;
use serde::Serialize;

use crate::process;

/// The media ranges that a request accepts, without those that cannot be read.
pub(super) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Mime> {
    let lines = headers.get_all(header::ACCEPT).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let ranges = lines.flat_map(|line| line.split(','));
    ranges.filter_map(|range| range.trim().parse().ok())
}

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Counts the bytes in flight.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Starts an answer for a switch with this many segments.
    pub fn answer(&self, segments: usize) -> Answer {
        Answer {
            in_flight: self.clone(),
            bytes_max: answer_bytes_max(segments),
            chunks: VecDeque::new(),
            last: None,
        }
    }

    fn chunk(&self, bytes_max: usize) -> Option<Chunk> {
        let more = |taken: usize| Some(taken + CHUNK_BYTES).filter(|taken| *taken <= bytes_max);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(set, read, more).ok().map(|_| Chunk {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            in_flight: self.clone(),
        })
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A part of an answer, in flight until it is dropped.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    in_flight: InFlight,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.in_flight.0.fetch_sub(CHUNK_BYTES, Ordering::Relaxed);
    }
}

/// An answer under construction. A write fails if too many bytes are in flight.
#[derive(Debug)]
pub struct Answer {
    in_flight: InFlight,
    bytes_max: usize,
    chunks: VecDeque<Bytes>,
    /// The chunk being written.
    last: Option<Chunk>,
}

impl Answer {
    /// Completes the answer with this value as JSON.
    ///
    /// # Errors
    /// [`Refusal`] if too many bytes are in flight.
    pub fn json(mut self, value: &impl Serialize) -> Result<Response, Refusal> {
        match serde_json::to_writer(&mut self, value) {
            Ok(()) => Ok(self.finish("application/json")),
            Err(error) if error.is_io() => Err(no_room()),
            Err(error) => Err(Refusal::internal(&error)),
        }
    }

    /// Completes the answer with the output of `write`.
    ///
    /// # Errors
    /// [`Refusal`] if too many bytes are in flight.
    pub fn written(
        mut self,
        content_type: &'static str,
        write: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> Result<Response, Refusal> {
        write(&mut self).map_err(|_| no_room())?;
        Ok(self.finish(content_type))
    }

    fn finish(mut self, content_type: &'static str) -> Response {
        self.chunks.extend(self.last.map(Bytes::from_owner));
        let body = Body::new(Chunks(self.chunks));
        ([(header::CONTENT_TYPE, content_type)], body).into_response()
    }
}

fn no_room() -> Refusal {
    process::rejected("memory");
    Refusal::busy(
        "too many bytes of answers are in flight; retry in a second, or request less: a part of \
         the list, one segment",
    )
}

impl Write for Answer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let full = |chunk: &mut Chunk| chunk.bytes.len() == CHUNK_BYTES;
        if let Some(full) = self.last.take_if(full) {
            self.chunks.push_back(Bytes::from_owner(full));
        }
        if self.last.is_none() {
            self.last = self.in_flight.chunk(self.bytes_max);
        }
        let chunk = self.last.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
        let size = bytes.len().min(CHUNK_BYTES - chunk.bytes.len());
        chunk.bytes.extend_from_slice(&bytes[..size]);
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body of an answer.
struct Chunks(VecDeque<Bytes>);

impl HttpBody for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let bytes: usize = self.0.iter().map(Bytes::len).sum();
        SizeHint::with_exact(bytes as u64)
    }
}

/// A refusal.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    header: Option<(header::HeaderName, HeaderValue)>,
}

impl Refusal {
    /// A refusal with this status, and an error that says what is wrong and what to do.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            header: None,
        }
    }

    /// A refusal of a bad request.
    pub fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// A fault of this program.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    /// A temporary refusal: the client may retry in a second.
    pub(super) fn busy(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error).with(header::RETRY_AFTER, "1")
    }

    /// Adds a header for the client.
    pub(super) fn with(self, name: header::HeaderName, value: &'static str) -> Self {
        Self {
            header: Some((name, HeaderValue::from_static(value))),
            ..self
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = self.error;
        let mut response = (self.status, Json(Problem { error })).into_response();
        response.headers_mut().extend(self.header);
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::StatusCode;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_what_was_written_and_counts_until_it_is_taken() {
        let in_flight = InFlight::default();
        let list: Vec<usize> = (0..50_000).collect();
        let answer = in_flight.answer(0).json(&list).unwrap();
        let json = serde_json::to_vec(&list).unwrap();
        let chunks = json.len().div_ceil(CHUNK_BYTES);
        assert!(chunks > 3 && in_flight.bytes() == chunks * CHUNK_BYTES);
        let body = answer.into_body();
        assert_eq!(body.size_hint().exact(), Some(json.len() as u64));
        assert_eq!(to_bytes(body, usize::MAX).await.unwrap(), json);
        assert_eq!(in_flight.bytes(), 0);
    }

    #[test]
    fn what_is_over_the_limit_is_refused_and_leaves_nothing_behind() {
        let in_flight = InFlight::default();
        let half = "x".repeat(answer_bytes_max(0) / 2 - 2 * CHUNK_BYTES);
        let answers = [(); 2].map(|()| in_flight.answer(0).json(&half).unwrap());
        let taken = in_flight.bytes();
        assert!(taken <= answer_bytes_max(0));
        let refused = in_flight.answer(0).json(&half).unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert_eq!(in_flight.bytes(), taken);
        // More segments raise the limit; and the rest is free again once it has been read.
        let more = answer_bytes_max(0) / (answer_bytes_max(1) - answer_bytes_max(0));
        in_flight.answer(more).json(&half).unwrap();
        drop(answers);
        assert_eq!(in_flight.bytes(), 0);
        in_flight.answer(0).json(&half).unwrap();
    }
}
