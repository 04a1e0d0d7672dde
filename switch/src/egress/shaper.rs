//! Paces departures to a capacity.

use std::time::Duration;

use measure::time::{TickRate, Ticks};

/// Lateness that is compensated. A worker that polls late sends what was due meanwhile, so that the
/// capacity is reached exactly; but after a stall it must not flood the link.
const CATCH_UP: Duration = Duration::from_millis(1);

/// Paces departures to a capacity in bit/s: a frame may start when the previous one has ended, or earlier
/// by the time of `burst_bytes`, if the link was idle that long.
///
/// In any window of time at most this much leaves: capacity times (window + time since the preceding poll,
/// at most 1 ms), plus the burst and one frame.
#[derive(Debug, Clone)]
pub struct Shaper {
    /// Ticks for each byte, as a fixed-point number with 32 fractional bits.
    ticks_per_byte_q32: u64,
    burst_ticks: u64,
    catch_up_ticks: u64,
    /// When the link becomes free: whole ticks, and 2^-32 of them.
    free_at: Ticks,
    free_at_fraction: u32,
}

impl Shaper {
    /// A link of `capacity_bps` bit/s (at least 1,000) that accumulates up to `burst_bytes` on the wire
    /// while idle.
    pub fn new(capacity_bps: u64, burst_bytes: u32, rate: TickRate) -> Self {
        let ticks_per_byte_q32 =
            ((8 * u128::from(rate.hz())) << 32) / u128::from(capacity_bps.max(1_000));
        let mut shaper = Self {
            ticks_per_byte_q32: u64::try_from(ticks_per_byte_q32).unwrap_or(u64::MAX),
            burst_ticks: 0,
            catch_up_ticks: rate.ticks_in(CATCH_UP),
            free_at: Ticks(0),
            free_at_fraction: 0,
        };
        shaper.burst_ticks = shaper.span(burst_bytes).0;
        shaper
    }

    /// Notes that a packet arrived at an empty port at `now`: an idle link accumulates at most the burst.
    #[inline]
    pub fn wake(&mut self, now: Ticks) {
        self.forfeit(now, self.burst_ticks);
    }

    /// Notes that packets are queued at `now`: the lateness to compensate is limited, too.
    #[inline]
    pub fn polled(&mut self, now: Ticks) {
        self.forfeit(now, self.burst_ticks.saturating_add(self.catch_up_ticks));
    }

    #[inline]
    fn forfeit(&mut self, now: Ticks, credit_ticks: u64) {
        let earliest = now.saturating_minus(credit_ticks);
        if self.free_at < earliest {
            (self.free_at, self.free_at_fraction) = (earliest, 0);
        }
    }

    /// Whether a frame may start at `now`.
    #[inline]
    pub fn is_free(&self, now: Ticks) -> bool {
        self.free_at <= now
    }

    /// Starts a frame of `wire_bytes` on the wire.
    #[inline]
    pub fn occupy(&mut self, wire_bytes: u32) {
        let (ticks, fraction) = self.span(wire_bytes);
        let (fraction, carry) = self.free_at_fraction.overflowing_add(fraction);
        self.free_at = (self.free_at)
            .saturating_plus(ticks)
            .saturating_plus(u64::from(carry));
        self.free_at_fraction = fraction;
    }

    /// Takes over the state of `old`, so that a change gives no credit.
    pub fn succeed(&mut self, old: &Self) {
        (self.free_at, self.free_at_fraction) = (old.free_at, old.free_at_fraction);
    }

    /// Duration of `wire_bytes`: whole ticks, and 2^-32 of them.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a product of 64 and 32 bits, split into whole ticks and fraction"
    )]
    fn span(&self, wire_bytes: u32) -> (u64, u32) {
        let span = u128::from(self.ticks_per_byte_q32) * u128::from(wire_bytes);
        ((span >> 32) as u64, span as u32)
    }

    /// Duration of a frame of `wire_bytes`, in ticks.
    pub fn ticks_of(&self, wire_bytes: u32) -> u64 {
        self.span(wire_bytes).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_capacities_do_not_drift() {
        // 3 bit/s short of 1 Gb/s: fractions of a tick must add up over a million frames.
        let mut shaper = Shaper::new(999_999_997, 0, TickRate::from_hz(2_700_000_000));
        for _ in 0..1_000_000 {
            shaper.occupy(125);
        }
        let exact = 1e6 * 125.0 * 8.0 * 2.7e9 / 999_999_997.0;
        assert!(
            (shaper.free_at.0 as f64 - exact).abs() < 2.0,
            "{:?} for {exact}",
            shaper.free_at
        );
    }

    #[test]
    fn an_idle_link_saves_up_the_burst_and_no_more() {
        // 1 Gb/s at 1 GHz: 8 ticks a byte.
        let mut shaper = Shaper::new(1_000_000_000, 1_000, TickRate::from_hz(1_000_000_000));
        for now in [50_000_000, 90_000_000].map(Ticks) {
            shaper.wake(now);
            let frames = (0..100)
                .take_while(|_| {
                    let is_free = shaper.is_free(now);
                    shaper.occupy(100);
                    is_free
                })
                .count();
            assert_eq!(frames, 11, "the burst, and the frame on the link");
        }
    }

    #[test]
    fn what_a_late_poll_makes_good_is_bounded() {
        let mut shaper = Shaper::new(1_000_000_000, 0, TickRate::from_hz(1_000_000_000));
        shaper.wake(Ticks(5_000));
        shaper.polled(Ticks(900_000));
        assert_eq!(
            shaper.free_at,
            Ticks(5_000),
            "within a millisecond: all of it"
        );
        shaper.polled(Ticks(60_000_000));
        assert_eq!(shaper.free_at, Ticks(59_000_000));
    }

    #[test]
    fn the_slowest_link_does_not_overflow() {
        let mut shaper = Shaper::new(1, u32::MAX, TickRate::from_hz(5_000_000_000));
        for _ in 0..1_000 {
            shaper.occupy(u32::MAX);
        }
        assert!(!shaper.is_free(Ticks(u64::MAX / 2)));
    }
}
