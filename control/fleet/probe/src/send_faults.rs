//! Sessions whose requests the system refuses to send.

use std::fmt;

use crate::session::Session;
use crate::socket::SendError;

/// How many sessions [`SendFaults`] names.
const NAMED_MAX: usize = 16;

/// Sessions whose requests the system refuses to send, and why: the first ones, and whether there are more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendFaults(Vec<(String, SendError)>);

impl SendFaults {
    /// The faults of these sessions.
    pub fn of<'s>(sessions: impl Iterator<Item = &'s Session>) -> Self {
        let failing = sessions.filter_map(|session| {
            let error = session.send_error()?;
            Some((session.settings().id.name.clone(), error))
        });
        Self(failing.take(NAMED_MAX + 1).collect())
    }

    /// The named sessions, and whether there are more.
    fn named(&self) -> (&[(String, SendError)], bool) {
        let named = self.0.len().min(NAMED_MAX);
        (&self.0[..named], self.0.len() > named)
    }

    /// Whether all requests are sent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Logs the differences from `before`, one line for each session.
    pub fn log_changes(&self, before: &Self) {
        let (now, has_more) = self.named();
        let (then, had_others) = before.named();
        for (name, error) in now.iter().filter(|fault| !then.contains(fault)) {
            tracing::warn!("{name}: requests cannot be sent: {error}");
        }
        if has_more && !had_others {
            tracing::warn!("requests of further sessions cannot be sent");
        }
        // If there are more than are named, one that is no longer named may still fail.
        if has_more {
            return;
        }
        let fails = |name: &String| now.iter().any(|(failing, _)| failing == name);
        for (name, _) in then.iter().filter(|(name, _)| !fails(name)) {
            tracing::info!("{name}: requests are sent again");
        }
    }
}

impl fmt::Display for SendFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (named, has_more) = self.named();
        let lines = named.iter();
        let lines = lines.map(|(name, error)| format!("{name}: requests cannot be sent: {error}"));
        let more = has_more.then(|| "and further sessions".to_owned());
        f.write_str(&lines.chain(more).collect::<Vec<_>>().join("\n"))
    }
}
