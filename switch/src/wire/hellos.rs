//! Selects the hellos that are worth checking.
//!
//! A hello belongs to no session: an attacker who recorded one can replay it at line rate, with a correct
//! tag. So its time is compared before anything expensive is done:
//!
//! ```text
//!  of a time excluded by a synchronised clock ---> stale
//!  newer than all accepted ones -----------------> checked: no recording is
//!  one of the latest accepted ones --------------> replayed
//!  else (old, or from a clock that was set back) -> checked, some a second
//! ```
//!
//! So a single recording costs a comparison, however often it is replayed, many of them cost some tags a
//! second, and a genuine hello, which is new, is not delayed.

use contract::counters::Rejection;
use measure::time::{TickRate, Ticks};
use wire::frame::Claim;

/// Farther than this from a synchronised clock, a hello of a synchronised clock is a recording. This
/// exceeds the difference of TAI and UTC, so that ends that use different offsets can still report it.
const STALE_NS: u64 = 60_000_000_000;

/// Old hellos checked in a second, and at once.
const OLD_PER_S: u64 = 16;
const OLD_AT_ONCE: u64 = 16;

/// Number of hellos remembered.
const KNOWN: usize = 8;

/// The hellos received on one port.
#[derive(Debug)]
pub struct HelloGate {
    /// Sealing times of the latest accepted hellos, in order.
    known: [i64; KNOWN],
    next: usize,
    /// Sealing time of the newest one.
    newest: i64,
    ticks_per_old: u64,
    /// Old hellos count as if at times this far apart, at most `OLD_AT_ONCE` behind the present (GCRA,
    /// ITU-T I.371, annex A).
    old_at: Ticks,
}

impl HelloGate {
    /// Starts without hellos. `now` and `rate` are those of the worker's counter.
    pub fn new(rate: TickRate, now: Ticks) -> Self {
        Self {
            known: [i64::MIN; KNOWN],
            next: 0,
            newest: i64::MIN,
            ticks_per_old: rate.hz() / OLD_PER_S,
            old_at: now,
        }
    }

    /// Whether to check a hello with `claim` at `now`; `kept_tai_ns` is this end's time if its clock is
    /// synchronised.
    ///
    /// # Errors
    /// How to count it otherwise.
    pub fn admit(
        &mut self,
        claim: Claim,
        kept_tai_ns: Option<u64>,
        now: Ticks,
    ) -> Result<(), Rejection> {
        let sealed_ns = claim.tai_ns;
        if let Some(tai_ns) = kept_tai_ns.filter(|_| claim.is_locked)
            && tai_ns.cast_signed().abs_diff(sealed_ns) > STALE_NS
        {
            return Err(Rejection::Stale);
        }
        if sealed_ns > self.newest {
            return Ok(());
        }
        if self.known.contains(&sealed_ns) {
            return Err(Rejection::Replayed);
        }
        let saved = self.ticks_per_old * OLD_AT_ONCE;
        let next_at = (self.old_at)
            .max(now.saturating_minus(saved))
            .plus(self.ticks_per_old);
        if next_at > now {
            return Err(Rejection::HelloRate);
        }
        self.old_at = next_at;
        Ok(())
    }

    /// Notes that its tag was correct.
    pub fn accepted(&mut self, claim: Claim) {
        self.newest = self.newest.max(claim.tai_ns);
        if let Some(known) = self.known.get_mut(self.next) {
            *known = claim.tai_ns;
        }
        self.next = (self.next + 1) % KNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GHZ: u64 = 1_000_000_000;
    const SECOND: i64 = 1_000_000_000;

    fn gate() -> HelloGate {
        HelloGate::new(TickRate::from_hz(GHZ), Ticks(0))
    }

    fn claim(tai_ns: i64) -> Claim {
        Claim {
            tai_ns,
            is_locked: true,
        }
    }

    #[test]
    fn new_hellos_are_looked_at_and_known_again() {
        let mut gate = gate();
        for tai_ns in 1..100 {
            assert_eq!(gate.admit(claim(tai_ns), None, Ticks(0)), Ok(()));
            gate.accepted(claim(tai_ns));
            for old in (tai_ns - 7).max(1)..=tai_ns {
                assert_eq!(
                    gate.admit(claim(old), None, Ticks(0)),
                    Err(Rejection::Replayed),
                    "{old}"
                );
            }
        }
    }

    #[test]
    fn many_recordings_are_metered_and_never_stand_in_the_way_of_a_new_hello() {
        let mut gate = gate();
        gate.accepted(claim(1_000));
        let start = 100 * GHZ;
        let flood = |gate: &mut HelloGate, from: u64, until: u64| {
            let times = (from..until).step_by(1_000_000);
            let admitted = times.filter(|&now| {
                let recorded = claim(-i64::try_from(now % 900).unwrap());
                let is_admitted = gate.admit(recorded, None, Ticks(now)).is_ok();
                if is_admitted {
                    assert!(
                        gate.admit(claim(1_001), None, Ticks(now)).is_ok(),
                        "a new one"
                    );
                }
                is_admitted
            });
            admitted.count()
        };
        // What was saved up, and then sixteen a second.
        assert_eq!(flood(&mut gate, start, start + GHZ), 31);
        assert_eq!(flood(&mut gate, start + GHZ, start + 11 * GHZ), 160);
    }

    #[test]
    fn what_a_kept_clock_cannot_explain_is_stale() {
        let mut gate = gate();
        let now_ns = 1_800_000_000 * GHZ;
        let at = |off_s: i64| now_ns.cast_signed() + off_s * SECOND;
        for (off_s, verdict) in [
            (-61, Err(Rejection::Stale)),
            (61, Err(Rejection::Stale)),
            (-37, Ok(())),
            (37, Ok(())),
        ] {
            assert_eq!(
                gate.admit(claim(at(off_s)), Some(now_ns), Ticks(0)),
                verdict
            );
        }
        for extreme in [i64::MIN + 1, i64::MAX] {
            let verdict = gate.admit(claim(extreme), Some(now_ns), Ticks(0));
            assert_eq!(verdict, Err(Rejection::Stale));
        }
        // One of the clocks is not kept: the handshake will say so.
        assert_eq!(gate.admit(claim(at(-999)), None, Ticks(0)), Ok(()));
        let free = Claim {
            is_locked: false,
            ..claim(at(-999))
        };
        assert_eq!(gate.admit(free, Some(now_ns), Ticks(0)), Ok(()));
    }
}
