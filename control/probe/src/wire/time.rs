//! Timestamps and error estimates as test packets carry them (RFC 8762, section 4.2.1).

/// Seconds from 1900, where NTP counts from, to 1970.
const NTP_UNIX_S: u64 = 2_208_988_800;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since 1970 by the system's clock (`CLOCK_REALTIME`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixNs(pub u64);

impl UnixNs {
    /// Now, by the system's clock as programs read it.
    pub fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        Self(since.as_secs() * NS_PER_S + u64::from(since.subsec_nanos()))
    }

    /// Nanoseconds since `earlier`; below 0 where that is later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }
}

/// How a timestamp is written: the Z bit of the error estimate (RFC 8186, section 2.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Seconds since 1900 and parts of 2^32 of a second (RFC 5905): the default.
    #[default]
    Ntp,
    /// Seconds since 1970 and nanoseconds, truncated to 64 bits (IEEE 1588).
    Ptp,
}

impl Format {
    /// A time as 64 bits.
    pub fn encode(self, time: UnixNs) -> u64 {
        let (seconds, ns) = (time.0 / NS_PER_S, time.0 % NS_PER_S);
        let (seconds, fraction) = match self {
            // Rounded up, so that decoding, which rounds down, gives the same nanosecond.
            Self::Ntp => (seconds + NTP_UNIX_S, (ns << 32).div_ceil(NS_PER_S)),
            Self::Ptp => (seconds, ns),
        };
        seconds << 32 | fraction
    }

    /// The time that 64 bits say, in the era that is nearest to `near`. `None` where nanoseconds are a second or more.
    pub fn decode(self, bits: u64, near: UnixNs) -> Option<UnixNs> {
        let (seconds, fraction) = (bits >> 32, bits & 0xffff_ffff);
        let (from, ns) = match self {
            Self::Ntp => (NTP_UNIX_S, (fraction * NS_PER_S) >> 32),
            Self::Ptp => (0, fraction),
        };
        let near_s = near.0 / NS_PER_S + from;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "seconds are compared modulo 2^32"
        )]
        let ahead_s = (seconds as u32).wrapping_sub(near_s as u32).cast_signed();
        let seconds = near_s.checked_add_signed(i64::from(ahead_s))?;
        let whole = seconds.checked_sub(from)?.checked_mul(NS_PER_S)?;
        (ns < NS_PER_S).then(|| whole.checked_add(ns))?.map(UnixNs)
    }
}

/// How far off a clock may be, and whether it is synchronised (RFC 4656, section 4.1.2; RFC 8762, figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// The S bit: the clock is synchronised to UTC by an outside source.
    pub is_synchronised: bool,
    /// The Z bit: how timestamps are written.
    pub format: Format,
    /// Exponent, 0 to 63.
    pub scale: u8,
    /// Factor; 0 is not allowed on the wire, and says that the estimate is void.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The least that is no less than `error_ns`.
    pub fn new(is_synchronised: bool, format: Format, error_ns: u64) -> Self {
        // In units of 2^-32 seconds.
        let mut units = (u128::from(error_ns) << 32).div_ceil(u128::from(NS_PER_S));
        let mut scale = 0;
        while units > 255 {
            units = units.div_ceil(2);
            scale += 1;
        }
        Self {
            is_synchronised,
            format,
            scale,
            multiplier: u8::try_from(units.max(1)).unwrap_or(u8::MAX),
        }
    }

    /// As it is on the wire.
    pub fn to_bits(self) -> u16 {
        let flags =
            u16::from(self.is_synchronised) << 15 | u16::from(self.format == Format::Ptp) << 14;
        flags | u16::from(self.scale & 0x3f) << 8 | u16::from(self.multiplier)
    }

    /// From the wire.
    pub fn from_bits(bits: u16) -> Self {
        let [high, multiplier] = bits.to_be_bytes();
        let is_ptp = high & 0x40 != 0;
        Self {
            is_synchronised: high & 0x80 != 0,
            format: if is_ptp { Format::Ptp } else { Format::Ntp },
            scale: high & 0x3f,
            multiplier,
        }
    }

    /// The error in nanoseconds: multiplier times 2^(scale - 32) seconds.
    pub fn error_ns(self) -> f64 {
        f64::from(self.multiplier) * 2_f64.powi(i32::from(self.scale) - 32) * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times_are_known_bits() {
        // 1970 in NTP; half a second is the top bit of the fraction.
        assert_eq!(
            Format::Ntp.encode(UnixNs(500_000_000)),
            NTP_UNIX_S << 32 | 0x8000_0000
        );
        assert_eq!(
            Format::Ptp.encode(UnixNs(1_500_000_000)),
            (1 << 32) + 500_000_000
        );
        // Ten seconds after the rollover of NTP's era, 2036-02-07 06:28:16.
        let later = UnixNs(2_085_978_506 * NS_PER_S);
        assert_eq!(Format::Ntp.encode(later) >> 32, 10);
    }

    #[test]
    fn the_era_is_the_nearest() {
        let rollover_s = (1 << 32) - NTP_UNIX_S;
        let (before, after) = (
            UnixNs((rollover_s - 5) * NS_PER_S),
            UnixNs((rollover_s + 5) * NS_PER_S),
        );
        let bits = Format::Ntp.encode(after);
        assert_eq!(Format::Ntp.decode(bits, before), Some(after));
        let bits = Format::Ntp.encode(before);
        assert_eq!(Format::Ntp.decode(bits, after), Some(before));
        assert_eq!(Format::Ptp.decode(1 << 32 | NS_PER_S, after), None);
    }

    proptest! {
        #[test]
        fn times_survive_the_wire(
            time in (0..u64::MAX / 2).prop_map(UnixNs), off_s in -1_000_000_000_i64..1_000_000_000,
        ) {
            let near = UnixNs(time.0.saturating_add_signed(off_s * 1_000_000_000));
            for format in [Format::Ntp, Format::Ptp] {
                prop_assert_eq!(format.decode(format.encode(time), near), Some(time));
            }
        }

        #[test]
        fn any_bits_are_decoded_without_a_panic(bits: u64, near: u64) {
            for format in [Format::Ntp, Format::Ptp] {
                let _ = format.decode(bits, UnixNs(near));
            }
        }

        #[test]
        fn estimates_are_no_less_than_the_error_and_survive_the_wire(
            error_ns in 0..u64::MAX, is_synchronised: bool, bits: u16,
        ) {
            let estimate = ErrorEstimate::new(is_synchronised, Format::Ptp, error_ns);
            prop_assert!(estimate.error_ns() >= error_ns as f64 * (1.0 - 1e-12));
            prop_assert!(estimate.error_ns() <= error_ns as f64 * 1.01 + 0.25);
            prop_assert_eq!(ErrorEstimate::from_bits(estimate.to_bits()), estimate);
            prop_assert_eq!(ErrorEstimate::from_bits(bits).to_bits(), bits);
        }
    }
}
