//! Where the live table gets its snapshots.

use std::sync::Arc;
use std::time::Duration;

use crate::snapshot::{Published, Snapshot};

/// How long a switch may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Largest answer that is believed: thousands of segments are a few MiB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Something that has a latest snapshot.
pub trait SnapshotSource {
    /// The latest snapshot.
    ///
    /// # Errors
    /// [`SourceError`] when there is no way to it at present.
    fn latest(&mut self) -> Result<Arc<Snapshot>, SourceError>;
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
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
}

/// The switch in this very process.
impl SnapshotSource for Arc<Published> {
    fn latest(&mut self) -> Result<Arc<Snapshot>, SourceError> {
        Ok(self.read())
    }
}

/// A switch that is asked over HTTP.
#[derive(Debug)]
pub struct Remote {
    url: String,
    agent: ureq::Agent,
}

impl Remote {
    /// The switch at `url`, such as `http://127.0.0.1:9464`; the scheme may be left out.
    pub fn new(url: &str) -> Self {
        let scheme = if url.contains("://") { "" } else { "http://" };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .build();
        Self {
            url: format!("{scheme}{}", url.trim_end_matches('/')),
            agent: ureq::Agent::new_with_config(config),
        }
    }
}

impl SnapshotSource for Remote {
    fn latest(&mut self) -> Result<Arc<Snapshot>, SourceError> {
        let url = || self.url.clone();
        let foreign = |reason: ureq::Error| {
            let reason = reason.to_string();
            SourceError::Foreign { url: url(), reason }
        };
        let request = self.agent.get(format!("{}/api/v1/snapshot", self.url));
        let mut response = request.call().map_err(|error| match error {
            ureq::Error::StatusCode(_) | ureq::Error::Protocol(_) => foreign(error),
            error => SourceError::Unreachable {
                url: url(),
                reason: error.to_string(),
            },
        })?;
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_json().map(Arc::new).map_err(foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Server;
    use std::io::Write;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    #[test]
    fn a_served_snapshot_arrives_as_it_was() {
        let published = Arc::new(Published::new(Snapshot::example()));
        let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let server = server.serve(Arc::clone(&published)).unwrap();
        let mut remote = Remote::new(&format!("{}/", server.address()));
        assert_eq!(*remote.latest().unwrap(), Snapshot::example());
        assert_eq!(
            *Arc::clone(&published).latest().unwrap(),
            Snapshot::example()
        );
    }

    #[test]
    fn a_switch_that_is_not_there_is_one_clear_message() {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap();
        let error = Remote::new(&address.to_string())
            .latest()
            .unwrap_err()
            .to_string();
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
    fn something_else_that_answers_is_not_believed() {
        for answer in [
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
            "SSH-2.0\r\n",
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let other = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let error = Remote::new(&address).latest().unwrap_err();
            other.join().unwrap();
            assert!(!error.to_string().is_empty());
            if answer.starts_with("HTTP") {
                assert!(matches!(error, SourceError::Foreign { .. }), "{error}");
            }
        }
    }
}
