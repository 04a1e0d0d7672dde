//! The settings of an exchange, and what it is given at every poll.

use measure::InvalidArgument;
use measure::codec::TooLarge;
use measure::lda::adaptive::AdaptiveOptions;
use measure::packet::HASH_VERSION;
use measure::wire::WireLayout;
use measure::wire::frame::{ClockState, Header, Hello, PortName, SealError};
use measure::wire::session::{KeyId, KeyRing, Nonces};

/// The settings of an exchange.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This end.
    pub own: OwnEnd,
    /// The other end is across routers.
    pub is_routed: bool,
    /// The end that must be at the other side.
    pub expected: Expected,
    /// How long a session has the same key, in nanoseconds.
    pub renew_ns: u64,
    /// Keys that are accepted.
    pub keys: KeyRing,
    /// The one that frames are sealed with.
    pub key: KeyId,
    /// What both ends keep.
    pub layout: WireLayout,
    /// How banks of the LDA follow the losses; none: they stay as `layout` has them.
    pub adaptive: Option<AdaptiveOptions>,
    /// [`seed_check`](measure::wire::frame::seed_check) of the deployment's seed.
    pub seed_check: u64,
    /// Length of an epoch.
    pub epoch_ns: u64,
    /// Size and rate of control frames.
    pub frames: FrameSettings,
    /// Epochs without a packet after which a flow is forgotten.
    pub idle_epochs: u64,
    /// K, the components of the prior that flows are decoded with.
    pub components: usize,
    /// Stamps of the switches resolve nothing below this, in nanoseconds.
    pub resolution_ns: f64,
    /// No packet takes less from one end to the other, in nanoseconds; 0 where nothing is known.
    pub delay_min_ns: u32,
}

/// This end, as hellos name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnEnd {
    /// The switch's number,
    pub switch: u32,
    /// the port's,
    pub port: u16,
    /// and the port's name.
    pub port_name: PortName,
}

/// Size and rate of control frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSettings {
    /// Most bytes of a frame, from magic to tag; no more than
    /// [`FRAME_ROOM`](contract::wire::handover::FRAME_ROOM).
    pub bytes_max: usize,
    /// Bytes on the link around a frame: headers, preamble, frame check sequence, gap.
    pub overhead_bytes: usize,
    /// Bytes a second on the link that frames may take.
    pub bytes_per_s: u64,
}

/// The end that must be at the other side of a wire, as far as it is configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its switch.
    pub switch: Option<u32>,
    /// The name that it has for its port.
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
    /// The error that it claims.
    pub error_ns: u32,
    /// Its offset of TAI from UTC, in seconds.
    pub tai_utc_s: i16,
    /// Its PTP domain.
    pub ptp_domain: u8,
}

/// The name of a clock's state.
pub(crate) fn clock_label(state: ClockState) -> &'static str {
    match state {
        ClockState::Free => "free",
        ClockState::HoldingOver => "holding_over",
        ClockState::Locked => "locked",
    }
}

/// An exchange that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExchangeError {
    /// Frames could not be sealed.
    #[error(transparent)]
    Key(#[from] SealError),
    /// Banks that cannot follow the losses.
    #[error(transparent)]
    Adaptive(#[from] InvalidArgument),
    /// A synopsis of more elements than can be held.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Frames of no usable size.
    #[error("control frames of {frame_bytes} bytes are too small or too large; allow 512 to 1,500")]
    Frames {
        /// What was given.
        frame_bytes: usize,
    },
}

impl Settings {
    /// This end's hello.
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
            port_name: self.own.port_name,
            shapes: self.layout.shapes(),
        }
    }
}
