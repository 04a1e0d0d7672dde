//! The HTTP server: metrics for Prometheus, and JSON, from the published snapshot.
//!
//! ```text
//!  listener -> connection limit (64 slots) -> connection (limits of time and size) -> router
//!                  ^                                                          |
//!                  +- the connection longest without progress closes   count, receive, guard, answer
//!                                                                                             |
//!                                                chunks of limited size over all connections -+
//! ```
//!
//! It runs on one thread with a single-threaded runtime, away from the workers. At most [`CONNECTIONS_MAX`]
//! clients are served at once; an idle client can lose its slot, and a new one always gets one. Every
//! answer is made from one snapshot, and all answers share a limit of memory.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::process;
use contract::config::Http;
use control::contain::{self, Part};
use control::published::Published;
use control::running;

mod access;
mod answer;
mod connection;
mod openapi;
mod routes;
#[cfg(test)]
mod tests;
pub mod ui;

use access::{Access, Token};
use connection::ConnectionLimit;
use routes::Sources;

pub use answer::{Answer, InFlight, Refusal};
pub use connection::CONNECTIONS_MAX;
pub use routes::{Nothing, Parameters, ok_unless};

/// How often samples of the process's own histograms are collected.
const UPKEEP: Duration = Duration::from_secs(5);

/// Task steps between two polls of the system: few enough to read a new client's request before its slot is
/// given away.
const STEPS_BETWEEN_POLLS: u32 = 8;

/// Approximate size of the kernel's send buffer for a client, which would otherwise be megabytes.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Why the configured server cannot start, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct StartError {
    /// The invalid key below `http`: `listen` or `token_file`.
    pub key: &'static str,
    words: String,
}

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    reload: Option<Arc<AtomicBool>>,
}

/// A running server; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    _thread: running::Running<watch::Sender<()>>,
}

impl Server {
    /// Listens as configured, and reads the token's file, if any; returns `None` if no server is
    /// configured.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn of(http: &Http) -> Result<Option<Self>, StartError> {
        let Some(address) = http.listen else {
            return Ok(None);
        };
        let server = Self::bind(address)?.with_hosts(&http.hosts);
        let Some(file) = &http.token_file else {
            if !address.ip().is_loopback() {
                tracing::warn!(
                    "anyone who can reach {address} can read everything and request a reload: \
                     http.insecure is set, and http.token_file is not"
                );
            }
            return Ok(Some(server));
        };
        if http.insecure {
            tracing::warn!("http.insecure has no effect: http.token_file is set");
        }
        Ok(Some(server.with_token(file)?))
    }

    /// Listens on `address`; port 0 selects a free port.
    ///
    /// # Errors
    /// [`StartError`] if the address is in use, not local, or not permitted.
    pub fn bind(address: SocketAddr) -> Result<Self, StartError> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            // Applies to accepted connections, too.
            set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self {
                listener,
                address,
                access: Access::default(),
                reload: None,
            })
        };
        listen().map_err(|error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "stop the program that listens there (`ss -ltnp` shows it), or set http.listen to \
                     another port, or to null for no server"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "set http.listen to an address of this machine, such as 127.0.0.1:9464"
                }
                io::ErrorKind::PermissionDenied => "set http.listen to a port over 1023",
                _ => "set http.listen to another address, or to null for no server",
            };
            StartError {
                key: "listen",
                words: format!("cannot serve HTTP on {address}: {error}; {hint}"),
            }
        })
    }

    /// Requires the token in `file` (one line) for every request, except `/healthz` and `/readyz`.
    ///
    /// # Errors
    /// [`StartError`] if the file has no token, or every user of the machine may read it.
    pub fn with_token(mut self, file: &Path) -> Result<Self, StartError> {
        let token = Token::load(file).map_err(|fault| StartError {
            key: "token_file",
            words: format!("http.token_file {}: {fault}", file.display()),
        })?;
        self.access.token = Some(token);
        Ok(self)
    }

    /// Accepts these names in the header `Host`, in addition to addresses and `localhost`.
    #[must_use]
    pub fn with_hosts(mut self, hosts: &[String]) -> Self {
        self.access.hosts = hosts.into();
        self
    }

    /// Sets `wanted` when a reload is requested; without it, such requests are refused.
    #[must_use]
    pub fn with_reload(self, wanted: Arc<AtomicBool>) -> Self {
        Self {
            reload: Some(wanted),
            ..self
        }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers from `published` on a separate thread.
    ///
    /// # Errors
    /// If the system cannot start a thread or an event queue.
    pub fn serve(self, published: Arc<Published>) -> io::Result<Running> {
        self.run(move |recorder, access, reload| {
            routes::router(Sources::new(published, recorder, reload), access)
        })
    }

    /// Serves the routes of another program on a separate thread, with a switch's limits, access control and
    /// counters. Requests are counted by `paths`, the paths of the routes.
    ///
    /// # Errors
    /// If the system cannot start a thread or an event queue.
    pub fn serve_routes(
        self,
        router: Router,
        paths: impl IntoIterator<Item = &'static str>,
    ) -> io::Result<Running> {
        let paths = paths.into_iter().collect();
        self.run(move |_, access, _| routes::layered(router, access, paths))
    }

    fn run(
        self,
        router: impl FnOnce(PrometheusHandle, Access, Option<Arc<AtomicBool>>) -> Router
        + Send
        + 'static,
    ) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(STEPS_BETWEEN_POLLS)
            .thread_name("vernier-answers")
            .max_blocking_threads(routes::LONG_MAX)
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let recorder = process::recorder();
        let (stop, stopped) = watch::channel(());
        let (reload, access) = (self.reload, self.access);
        let work = move || {
            let router = router(recorder.clone(), access, reload);
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, router, stopped) => {}
                    () = upkeep(&recorder) => {}
                }
            });
        };
        Ok(Running {
            address: self.address,
            _thread: running::Running::start("vernier-http", stop, work)?,
        })
    }
}

/// The router alone, which answers from `published`, and sets `reload` if reloads are allowed: no listener,
/// no connections, none of their limits. For programs with a server of their own.
pub fn router(published: Arc<Published>, reload: Option<Arc<AtomicBool>>) -> Router {
    let sources = Sources::new(published, process::recorder(), reload);
    routes::router(sources, Access::default())
}

/// All paths.
pub fn paths() -> impl Iterator<Item = &'static str> {
    routes::routes().into_iter().map(|route| route.path)
}

impl Running {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes the answers in progress and stops.
    pub fn stop(self) {}
}

async fn upkeep(recorder: &PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        recorder.run_upkeep();
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    mut stopped: watch::Receiver<()>,
) {
    let limit = ConnectionLimit::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (slot, cut_off) = limit.admit();
                let (router, stopped) = (router.clone(), stopped.clone());
                connections.spawn(connection::serve(stream, router, slot, cut_off, stopped));
            }
            Err(error) => {
                tracing::warn!("cannot accept an HTTP connection: {error}");
                // Most likely descriptors have run out, so an immediate retry would fail, too.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while let Some(ended) = connections.try_join_next() {
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                contain::note(Part::Http, &*panic);
            }
        }
        // Serves open connections, too, however many new ones arrive.
        tokio::task::yield_now().await;
    }
    while connections.join_next().await.is_some() {}
}
