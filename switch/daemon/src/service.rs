//! systemd, if it started the switch: ready, status, watchdog, stopping (`sd_notify(3)`).
//!
//! Without systemd (no `NOTIFY_SOCKET`) all of this does nothing.

use std::io;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager's view of the switch.
#[derive(Debug)]
pub struct Service {
    /// Interval of watchdog notifications: half of the unit's `WatchdogSec`.
    feed_every: Option<Duration>,
    fed_at: Option<Instant>,
}

impl Service {
    /// The service as the environment describes it (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub fn from_env() -> Self {
        Self {
            feed_every: sd_notify::watchdog_enabled().map(|limit| limit / 2),
            fed_at: None,
        }
    }

    /// Notifies that packets are being forwarded.
    pub fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Notifies that the configuration is being reloaded; [`ready`](Self::ready) ends that.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!("systemd was not notified of the reload: {error}"),
        }
    }

    /// Notifies that the switch is stopping.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Notifies the watchdog if due at `now`. Call this only while all workers run: without notifications systemd
    /// restarts the switch.
    pub fn feed(&mut self, now: Instant) {
        if self.is_hungry(now) {
            self.fed_at = Some(now);
            tell(&[NotifyState::Watchdog]);
        }
    }

    fn is_hungry(&self, now: Instant) -> bool {
        let Some(every) = self.feed_every else {
            return false;
        };
        self.fed_at
            .is_none_or(|fed_at| now.saturating_duration_since(fed_at) >= every)
    }
}

fn tell(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("systemd does not listen: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_fed_twice_an_interval() {
        let start = Instant::now();
        let mut service = Service {
            feed_every: Some(Duration::from_secs(5)),
            fed_at: None,
        };
        let fed: Vec<u64> = (0..20)
            .filter(|&second| {
                let now = start + Duration::from_secs(second);
                let is_hungry = service.is_hungry(now);
                service.feed(now);
                is_hungry
            })
            .collect();
        assert_eq!(fed, [0, 5, 10, 15]);
        service.feed_every = None;
        assert!(!service.is_hungry(start + Duration::from_mins(1)));
    }
}
