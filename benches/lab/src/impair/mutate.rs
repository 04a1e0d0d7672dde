//! Control frames forged from genuine ones: all look like control frames, and none may be accepted.

use ::wire::frame::{FRAME_BYTES_MAX, HEADER_BYTES, MAGIC, TAG_BYTES};
use clap::Args;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64Mcg;

use crate::frames::{ETHERTYPE, control};
use crate::impair::pipeline::{stream, whole};

/// Number of frames kept as a source of forgeries.
const SEEN_MAX: usize = 64;

/// Numbers that often break parsers.
const ODD: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];

/// Control frames that the box forges.
#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_field_names, reason = "names of options")]
pub struct MadeUp {
    /// Control frames per second to forge from those that pass to the right
    #[arg(long, value_name = "PPS", default_value_t = 0.0)]
    made_up_right: f64,
    /// Seconds after the first control frame until forging begins
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    made_up_after: f64,
    /// Duration of forging in seconds; unlimited if omitted
    #[arg(long, value_name = "SECONDS")]
    made_up_for: Option<f64>,
}

/// Forges control frames at a steady rate.
#[derive(Debug)]
pub struct Mutator {
    random: Pcg64Mcg,
    made_up: MadeUp,
    /// When the next frame is due, and when forging ends; `None` before the first frame was seen.
    times_ns: Option<(u64, u64)>,
    /// The last frames that passed.
    seen: Vec<Vec<u8>>,
}

impl Mutator {
    /// For a direction, 0 or 1.
    pub fn new(made_up: MadeUp, seed: u64, direction: u8) -> Self {
        Self {
            random: stream([seed, direction.into(), u64::MAX, 0]),
            made_up,
            times_ns: None,
            seen: Vec::new(),
        }
    }

    /// Stores a control frame that passed.
    pub fn see(&mut self, frame: &[u8]) {
        if self.made_up.made_up_right > 0.0 {
            if self.seen.len() == SEEN_MAX {
                self.seen.remove(0);
            }
            self.seen.push(frame.to_vec());
        }
    }

    /// A forged frame, if it is time for one.
    pub fn next(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if self.seen.is_empty() {
            return None;
        }
        let made_up = &self.made_up;
        let (next_ns, end_ns) = self.times_ns.get_or_insert_with(|| {
            let from_ns = now_ns.saturating_add(whole(made_up.made_up_after * 1e9));
            let for_s = made_up.made_up_for.unwrap_or(f64::INFINITY);
            (from_ns, from_ns.saturating_add(whole(for_s * 1e9)))
        });
        if !(*next_ns..*end_ns).contains(&now_ns) {
            return None;
        }
        let gap_ns = whole(1e9 / made_up.made_up_right).max(1);
        // What was missed is not made up for.
        *next_ns = (*next_ns + gap_ns).max(now_ns);
        self.make()
    }

    fn make(&mut self) -> Option<Vec<u8>> {
        let original = self.seen.choose(&mut self.random)?;
        let body = original.len() - control(original)?.len();
        let mut frame = original.clone();
        // Lengths of UDP and IP must stay correct, or the frame would be dropped on the way.
        let is_bare = frame.get(body - 2..body) == Some(&ETHERTYPE.to_be_bytes());
        let soft = body + MAGIC.len();
        for _ in 0..self.random.random_range(1..=4_u8) {
            let way = self.random.random_range(0..if is_bare { 7 } else { 4_u8 });
            self.change(&mut frame, soft, way);
        }
        if self.seen.contains(&frame)
            && let Some(last) = frame.last_mut()
        {
            *last ^= 1;
        }
        Some(frame)
    }

    /// Changes something from `soft` on.
    fn change(&mut self, frame: &mut Vec<u8>, soft: usize, way: u8) {
        let random = &mut self.random;
        let length = frame.len();
        if length <= soft {
            return;
        }
        let at = random.random_range(soft..length);
        let in_header = random.random_range(soft..length.min(soft + HEADER_BYTES - MAGIC.len()));
        match way {
            0 => frame[at] ^= 1 << random.random_range(0..8_u8),
            1 => frame[at] = random.random(),
            2 => frame[in_header] = *ODD.choose(random).unwrap_or(&0),
            3 => {
                let bytes: [u8; 4] = random.random();
                let field = frame.iter_mut().skip(in_header);
                field.zip(bytes).for_each(|(byte, new)| *byte = new);
            }
            4 => frame.truncate(at),
            5 => {
                let more = random.random_range(1..=TAG_BYTES * 4);
                frame.extend((0..more).map(|_| random.random::<u8>()));
                frame.truncate(FRAME_BYTES_MAX.min(1_514));
            }
            // The beginning of one frame and the end of another.
            _ => {
                if let Some(back) = self.seen.choose(random).and_then(|other| other.get(at..)) {
                    frame.truncate(at);
                    frame.extend(back);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::frames::kind;
    use ::wire::frame::Frame;

    use super::*;

    fn at(pps: f64) -> MadeUp {
        MadeUp {
            made_up_right: pps,
            ..MadeUp::default()
        }
    }

    fn seen() -> Vec<Vec<u8>> {
        (1..=7_u8)
            .map(|kind| {
                let mut frame = vec![2; 12];
                frame.extend(ETHERTYPE.to_be_bytes());
                frame.extend(MAGIC);
                frame.extend([1, kind]);
                frame.extend((0..150 + 10 * kind).map(|i| i ^ 0x55));
                frame
            })
            .collect()
    }

    #[test]
    fn made_up_frames_are_control_frames_and_none_that_was_seen() {
        let mut mutator = Mutator::new(at(1e6), 1, 0);
        assert_eq!(mutator.next(0), None, "of nothing");
        for frame in seen() {
            mutator.see(&frame);
        }
        let mut parsed = 0;
        for step in 0..20_000 {
            let frame = mutator.next(1_000 * step).unwrap();
            assert!(kind(&frame) > 0, "{frame:02x?}");
            assert!(!seen().contains(&frame) && frame.len() <= 1_514);
            let body = control(&frame).unwrap();
            parsed += u32::from(Frame::parse(body).is_ok());
        }
        // Those seen here have wrong lengths; what matters is that all ways are gone.
        assert!(parsed < 20_000);
    }

    #[test]
    fn they_come_at_their_rate() {
        let mut mutator = Mutator::new(at(1_000.0), 1, 0);
        for frame in seen() {
            mutator.see(&frame);
        }
        let made = (0..100_000).filter(|i| mutator.next(i * 10_000).is_some());
        assert!((990..=1_001).contains(&made.count()));
        let mut never = Mutator::new(MadeUp::default(), 1, 0);
        never.see(&seen()[0]);
        assert!(never.next(0).is_none());
        let late = MadeUp {
            made_up_after: 0.1,
            made_up_for: Some(0.2),
            ..at(1_000.0)
        };
        let mut mutator = Mutator::new(late, 1, 0);
        mutator.see(&seen()[0]);
        let made: Vec<_> = (0..100)
            .filter(|i| mutator.next(i * 10_000_000).is_some())
            .collect();
        assert_eq!((made[0], made[made.len() - 1], made.len()), (10, 29, 20));
    }

    #[test]
    fn lengths_stay_right_in_udp() {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45]);
        frame.extend([0; 8]);
        frame.push(17);
        frame.extend([0; 18]);
        frame.extend(MAGIC);
        frame.extend([1; 100]);
        let mut mutator = Mutator::new(at(1e6), 1, 0);
        mutator.see(&frame);
        for step in 0..1_000 {
            let made = mutator.next(1_000 * step).unwrap();
            assert_eq!(made.len(), frame.len());
            assert_eq!(made[..46], frame[..46]);
            assert_ne!(made, frame);
        }
    }
}
