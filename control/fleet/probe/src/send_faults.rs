//! Sessions whose requests the system does not send.

use std::fmt;

use crate::session::Session;
use crate::socket::SendError;

/// Sessions that are named in [`SendFaults`].
const NAMED_MAX: usize = 16;

/// Sessions whose requests the system does not send, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendFaults {
    /// The first of them.
    named: Vec<(String, SendError)>,
    /// Whether there are more.
    has_more: bool,
}

impl SendFaults {
    /// Of these sessions.
    pub fn of<'s>(sessions: impl Iterator<Item = &'s Session>) -> Self {
        let mut failing = sessions.filter_map(|session| {
            let error = session.send_error()?;
            Some((session.settings().id.name.clone(), error))
        });
        Self {
            named: failing.by_ref().take(NAMED_MAX).collect(),
            has_more: failing.next().is_some(),
        }
    }

    /// Whether all requests are sent.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Logs the differences from `before`, one line for each session.
    pub fn log_changes(&self, before: &Self) {
        for fault in self.named.iter().filter(|now| !before.named.contains(now)) {
            tracing::warn!("{}: requests cannot be sent: {}", fault.0, fault.1);
        }
        if self.has_more && !before.has_more {
            tracing::warn!("requests of further sessions cannot be sent");
        }
        // Where there are more than are named, one that is named no more may fail all the same.
        if self.has_more {
            return;
        }
        let fails = |name: &String| self.named.iter().any(|(failing, _)| failing == name);
        for (name, _) in before.named.iter().filter(|(name, _)| !fails(name)) {
            tracing::info!("{name}: requests are sent again");
        }
    }
}

impl fmt::Display for SendFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, error)) in self.named.iter().enumerate() {
            let between = if index > 0 { "\n" } else { "" };
            write!(f, "{between}{name}: requests cannot be sent: {error}")?;
        }
        if self.has_more {
            write!(f, "\nand further sessions")?;
        }
        Ok(())
    }
}
