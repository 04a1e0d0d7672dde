//! What an exchange is made for, and what every poll gives it.

use measure::codec::TooLarge;
use measure::packet::HASH_VERSION;
use measure::wire::WireLayout;
use measure::wire::frame::{ClockState, Header, Hello, PortName, SealError};
use measure::wire::session::{KeyId, KeyRing, Nonces};

/// What an exchange is made for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This switch's number,
    pub switch: u32,
    /// and the port's.
    pub port: u16,
    /// The other end is across routers.
    pub is_routed: bool,
    /// The port's name here.
    pub port_name: PortName,
    /// Who must be at the other end.
    pub expected: Expected,
    /// How long a session has the same key, in nanoseconds.
    pub renew_ns: u64,
    /// Keys that are accepted.
    pub keys: KeyRing,
    /// The one that frames are sealed with.
    pub key: KeyId,
    /// What both ends keep.
    pub layout: WireLayout,
    /// [`seed_check`](measure::wire::frame::seed_check) of the deployment's seed.
    pub seed_check: u64,
    /// Length of an epoch.
    pub epoch_ns: u64,
    /// Most bytes of a control frame, from magic to tag; no more than
    /// [`FRAME_ROOM`](contract::wire::handover::FRAME_ROOM).
    pub frame_bytes: usize,
    /// Bytes on the link around a control frame: headers, preamble, frame check sequence, gap.
    pub overhead_bytes: usize,
    /// Bytes a second on the link that control frames may take.
    pub bytes_per_s: u64,
    /// K, the components of the prior that flows are decoded with.
    pub components: usize,
    /// Below this the switches' stamps tell nothing, in nanoseconds.
    pub resolution_ns: f64,
}

/// Who must be at the other end of a wire, as far as that is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its switch.
    pub switch: Option<u32>,
    /// Its name of its port.
    pub port: Option<PortName>,
}

impl Expected {
    pub(super) fn is_met(&self, header: &Header, hello: &Hello) -> bool {
        let is_switch = self.switch.is_none_or(|switch| switch == header.switch);
        is_switch && self.port.is_none_or(|port| port == hello.port_name)
    }
}

/// When a poll is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds of TAI since 1970-01-01.
    pub tai_ns: u64,
    /// Nanoseconds of a clock that never steps.
    pub monotonic_ns: u64,
}

/// This end's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockView {
    /// What it follows.
    pub state: ClockState,
    /// It is off by this much at most.
    pub error_ns: u32,
    /// Offset of TAI from UTC that it reckons with, in seconds.
    pub tai_utc_s: i16,
    /// Its PTP domain.
    pub ptp_domain: u8,
}

/// An exchange that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// Frames could not be sealed.
    #[error(transparent)]
    Key(#[from] SealError),
    /// Sketches on the wire count packets only.
    #[error("a sketch on the wire cannot count bytes")]
    CountsBytes,
    /// A synopsis of more elements than can be held.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Frames so small that nothing fits.
    #[error("control frames of {frame_bytes} bytes are too small or too large; allow 512 to 1,500")]
    Frames {
        /// What was given.
        frame_bytes: usize,
    },
}

impl Settings {
    /// What a hello says.
    pub(super) fn hello(&self, nonces: Nonces, clock: ClockView) -> Hello {
        Hello {
            hash_version: HASH_VERSION,
            seed_check: self.seed_check,
            epoch_ns: self.epoch_ns,
            nonces,
            clock_error_ns: clock.error_ns,
            tai_utc_s: clock.tai_utc_s,
            clock: clock.state,
            ptp_domain: clock.ptp_domain,
            stash_packets: self.layout.stash_packets,
            port_name: self.port_name,
            shapes: self.layout.shapes(),
        }
    }
}
