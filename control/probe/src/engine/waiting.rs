//! Waiting for packets of any socket, without a list of them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::socket::Socket;

/// All sockets behind one descriptor, which `ppoll` waits for: unlike `epoll_wait`, to the nanosecond.
#[derive(Debug, Default)]
pub(super) struct Waiting(Option<OwnedFd>);

impl Waiting {
    /// Waits for this socket, too, until it is closed.
    pub fn add(&mut self, socket: &Socket) -> io::Result<()> {
        let all = match &mut self.0 {
            Some(all) => all,
            none => none.insert(epoll::create(CreateFlags::CLOEXEC)?),
        };
        // Nobody asks which socket it was: all are looked at.
        epoll::add(all, socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(())
    }

    /// Waits until a socket has a packet or a time of transmission, `limit` at most.
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let woken = match &self.0 {
            Some(all) => poll(&mut [PollFd::new(all, PollFlags::IN)], Some(&limit)),
            None => poll(&mut [], Some(&limit)),
        };
        match woken {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
