//! When to inject a reference packet (Lee et al. 2010, section 3.2.1).

use std::num::{NonZeroU32, NonZeroU64};

use super::link::Link;
use crate::argument::{InvalidArgument, ensure};

/// When references are injected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// 1-in-n: after every `packets` regular packets.
    Count {
        /// n.
        packets: NonZeroU32,
    },
    /// 1-in-tau: with the first packet or poll that is `interval_ns` after the last reference.
    Time {
        /// tau.
        interval_ns: NonZeroU64,
    },
    /// At the earlier of the two.
    Either {
        /// n.
        packets: NonZeroU32,
        /// tau.
        interval_ns: NonZeroU64,
    },
    /// 1-in-n, with n depending on the link's utilisation (Algorithm 1).
    Adaptive(Adaptive),
}

/// The constants of Algorithm 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptive {
    /// Utilisation up to which the rate is greatest; 0 to 1, below `utilisation_max`.
    pub utilisation_min: f64,
    /// Utilisation from which the rate is least; 0 to 1.
    pub utilisation_max: f64,
    /// Least rate in references for each regular packet; over 0, at most `rate_max`.
    pub rate_min: f64,
    /// Greatest rate; at most 1.
    pub rate_max: f64,
    /// Weight of the newest utilisation in the moving average; over 0 to 1.
    pub smoothing: f64,
    /// Least time over which a utilisation is measured, in nanoseconds. The paper uses the time between two
    /// references; if packets leave in bursts, it must exceed their length, or a link looks full whenever one leaves.
    pub window_ns: u64,
}

impl Default for Adaptive {
    /// The paper's: utilisation .6 to .85, rate 1/300 to 1/10; smoothing .5.
    fn default() -> Self {
        Self {
            utilisation_min: 0.6,
            utilisation_max: 0.85,
            rate_min: 1.0 / 300.0,
            rate_max: 0.1,
            smoothing: 0.5,
            window_ns: 0,
        }
    }
}

impl Adaptive {
    /// Least rate that can be configured.
    pub const RATE_LEAST: f64 = 1e-9;

    fn validate(&self) -> Result<(), InvalidArgument> {
        let (min, max) = (self.utilisation_min, self.utilisation_max);
        ensure(0.0 <= min && min < max && max <= 1.0, || {
            format!("utilisations {min} to {max}: give two increasing numbers from 0 to 1")
        })?;
        let (min, max, least) = (self.rate_min, self.rate_max, Self::RATE_LEAST);
        ensure(least <= min && min <= max && max <= 1.0, || {
            format!(
                "rates {min} to {max} references for each packet: give two non-decreasing numbers from {least} to 1"
            )
        })?;
        let smoothing = self.smoothing;
        ensure(0.0 < smoothing && smoothing <= 1.0, || {
            format!("smoothing {smoothing}: give a number over 0, at most 1")
        })
    }

    /// References for each regular packet at a utilisation (Algorithm 1, lines 12 and 13): a
    /// quarter of an ellipse from `rate_max` down to `rate_min`.
    pub fn rate(&self, utilisation: f64) -> f64 {
        let clamped = utilisation.clamp(self.utilisation_min, self.utilisation_max);
        let position =
            (clamped - self.utilisation_min) / (self.utilisation_max - self.utilisation_min);
        (1.0 - position * position).max(0.0).sqrt() * (self.rate_max - self.rate_min)
            + self.rate_min
    }
}

/// Bytes and times of regular packets in, "inject now" out.
///
/// ```
/// # use std::num::NonZeroU32;
/// # use measure::rli::{Injector, Link, Policy};
/// let link = Link::new(10_000_000_000, 20)?;
/// let packets = NonZeroU32::new(3).unwrap();
/// let mut injector = Injector::new(Policy::Count { packets }, link)?;
/// let mut due = (0..7).map(|at_ns| {
///     let due = injector.packet(64, at_ns);
///     if due {
///         injector.injected(at_ns);
///     }
///     due
/// });
/// assert!(due.eq([false, false, true, false, false, true, false]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Injector {
    policy: Policy,
    link: Link,
    /// Regular packets since the last reference.
    packets: u64,
    /// When the last reference was injected, or the first packet was seen.
    last_ns: Option<u64>,
    utilisation: f64,
    /// When the utilisation was last measured, and the bytes that packets have occupied on the link since.
    measured_ns: Option<u64>,
    bytes: u64,
    /// Packets before the next reference, if the policy counts them.
    packets_due: Option<u64>,
}

impl Injector {
    /// A new injector before `link`.
    ///
    /// # Errors
    /// If the constants of an adaptive policy are out of range.
    pub fn new(policy: Policy, link: Link) -> Result<Self, InvalidArgument> {
        if let Policy::Adaptive(constants) = &policy {
            constants.validate()?;
        }
        let mut injector = Self {
            policy,
            link,
            packets: 0,
            last_ns: None,
            utilisation: 0.0,
            measured_ns: None,
            bytes: 0,
            packets_due: None,
        };
        injector.packets_due = injector.next_due();
        Ok(injector)
    }

    /// Counts a regular packet sent at `now_ns`; returns whether to inject a reference behind it.
    #[inline]
    pub fn packet(&mut self, bytes: u32, now_ns: u64) -> bool {
        self.run(1, bytes.into(), now_ns)
    }

    /// Counts regular packets of `bytes` bytes together, all sent at `now_ns`; returns whether to inject a
    /// reference behind them. So that no reference is late, pass at most [this many](Self::packets_to_go).
    #[inline]
    pub fn run(&mut self, packets: u32, bytes: u64, now_ns: u64) -> bool {
        self.packets = self.packets.saturating_add(packets.into());
        let occupied = self.link.occupied_bytes_of(packets, bytes);
        self.bytes = self.bytes.saturating_add(occupied);
        self.due(now_ns)
    }

    /// Number of regular packets that may be sent at `now_ns` until a reference is due behind the last of
    /// them: at least 1.
    #[inline]
    pub fn packets_to_go(&mut self, now_ns: u64) -> u64 {
        if self.due(now_ns) {
            return 1;
        }
        self.packets_due
            .map_or(u64::MAX, |due| due.saturating_sub(self.packets))
            .max(1)
    }

    /// Regular packets since the last reference.
    #[inline]
    pub fn packets_since(&self) -> u64 {
        self.packets
    }

    /// Whether to inject a reference at `now_ns` without a regular packet. If the policy has an interval,
    /// call this from time to time, so that a quiet link keeps its references.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> bool {
        let last_ns = *self.last_ns.get_or_insert(now_ns);
        self.measured_ns.get_or_insert(now_ns);
        let counted = self.packets_due.is_some_and(|due| self.packets >= due);
        let interval_ns = match self.policy {
            Policy::Time { interval_ns } | Policy::Either { interval_ns, .. } => interval_ns.get(),
            Policy::Count { .. } | Policy::Adaptive(_) => return counted,
        };
        // If the clock stepped back, the interval starts again.
        let elapsed_ns = now_ns.wrapping_sub(last_ns).cast_signed();
        if elapsed_ns < 0 {
            self.last_ns = Some(now_ns);
        }
        counted || u64::try_from(elapsed_ns).is_ok_and(|elapsed_ns| elapsed_ns >= interval_ns)
    }

    /// Notes that a reference was injected at `now_ns`. Until then it stays due: a reference that could not
    /// be sent is retried with the next packet.
    pub fn injected(&mut self, now_ns: u64) {
        if let Policy::Adaptive(constants) = self.policy {
            self.measure(constants, now_ns);
        }
        self.packets = 0;
        self.last_ns = Some(now_ns);
        self.packets_due = self.next_due();
    }

    /// Algorithm 1, lines 9 and 10, if enough time has passed. A clock that stepped back starts again.
    fn measure(&mut self, constants: Adaptive, now_ns: u64) {
        let since_ns = self.measured_ns.unwrap_or(now_ns);
        let interval_ns = now_ns.wrapping_sub(since_ns).cast_signed();
        if (0..=constants.window_ns.cast_signed()).contains(&interval_ns) {
            return;
        }
        if interval_ns > 0 {
            let busy_ns = self.bytes as f64 * 8e9 / self.link.capacity_bps() as f64;
            let instant = busy_ns / interval_ns as f64;
            self.utilisation += constants.smoothing * (instant - self.utilisation);
        }
        self.bytes = 0;
        self.measured_ns = Some(now_ns);
    }

    /// Notes that the reference due at `now_ns` is left out. The next one is due where it would have been due
    /// behind this one, so that references keep their places among packets.
    pub fn left_out(&mut self, now_ns: u64) {
        let next = self.next_due();
        self.packets_due = next.map(|packets| self.packets.saturating_add(packets));
        if !matches!(self.policy, Policy::Adaptive(_)) {
            self.last_ns = Some(now_ns);
        }
    }

    /// The moving average of the link's utilisation by regular packets (Algorithm 1, line 10); 0
    /// unless the policy is adaptive. Not clamped, over 1 while a burst is queued.
    pub fn utilisation(&self) -> f64 {
        self.utilisation
    }

    /// The current rate in references for each regular packet; `None` if time alone decides.
    pub fn rate(&self) -> Option<f64> {
        match self.policy {
            Policy::Count { packets } | Policy::Either { packets, .. } => {
                Some(1.0 / f64::from(packets.get()))
            }
            Policy::Adaptive(constants) => Some(constants.rate(self.utilisation)),
            Policy::Time { .. } => None,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are validated: from 1 to 10^9 packets"
    )]
    fn next_due(&self) -> Option<u64> {
        match self.policy {
            Policy::Count { packets } | Policy::Either { packets, .. } => {
                Some(u64::from(packets.get()))
            }
            // Rounded so that 1/300 is 300, not 301.
            Policy::Adaptive(constants) => {
                Some((1.0 / constants.rate(self.utilisation) - 1e-6).ceil() as u64)
            }
            Policy::Time { .. } => None,
        }
    }
}
