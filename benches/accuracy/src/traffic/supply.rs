//! Where an experiment's traffic comes from, whatever drives it.

use super::capture::Capture;
use super::{Profile, Traffic};
use crate::{Setting, Source};

/// The rate of the link in all experiments on a queue.
pub const CAPACITY_BPS: u64 = 10_000_000_000;
/// The share of packets (of a capture: of flows) that is measured.
pub const REGULAR_SHARE: f64 = 0.33;

/// How unevenly packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wander {
    /// Generated, the rate of bursts wanders by a little.
    Light,
    /// Generated, it wanders by much.
    Heavy,
    /// As a capture has it.
    AsCaptured,
}

impl Wander {
    /// In a word, for tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Heavy => "heavy",
            Self::AsCaptured => "capture",
        }
    }

    fn strength(self) -> f64 {
        match self {
            Self::Light => 0.05,
            Self::Heavy | Self::AsCaptured => 0.25,
        }
    }
}

/// Traffic at any load.
#[derive(Debug, Clone)]
pub struct Supply {
    capture: Option<Capture>,
    scale: f64,
}

impl Supply {
    /// Reads the capture, if there is one.
    ///
    /// # Errors
    /// The capture cannot be used.
    pub fn new(setting: &Setting) -> anyhow::Result<Self> {
        let capture = match &setting.source {
            Source::Generated => None,
            Source::Capture(file) => Some(Capture::read(file)?),
        };
        Ok(Self {
            capture,
            scale: setting.scale,
        })
    }

    /// The kinds of unevenness that it has.
    pub fn wanders(source: &Source) -> &'static [Wander] {
        match source {
            Source::Generated => &[Wander::Light, Wander::Heavy],
            Source::Capture(_) => &[Wander::AsCaptured],
        }
    }

    /// Packets that ask for `utilisation` of the link: two seconds of them, times the scale; of a
    /// capture all, whatever the seed.
    pub fn traffic(&self, utilisation: f64, wander: Wander, seed: u64) -> Traffic {
        if let Some(capture) = &self.capture {
            return capture.at_load(CAPACITY_BPS, utilisation, REGULAR_SHARE);
        }
        let acceptance = Profile::acceptance(utilisation, wander.strength());
        let profile = Profile {
            capacity_bps: CAPACITY_BPS,
            regular_share: REGULAR_SHARE,
            duration_s: acceptance.duration_s * self.scale,
            ..acceptance
        };
        profile.draw(seed)
    }
}

/// Seeds to run: as many as asked for, else `usual`; of a capture one, since its packets stay.
pub fn seeds(setting: &Setting, usual: u32) -> u32 {
    let usual = match setting.source {
        Source::Generated => usual,
        Source::Capture(_) => 1,
    };
    setting.seeds.unwrap_or(usual).max(1)
}

/// So many seeds, for the text above a table.
pub fn in_words(seeds: u32) -> String {
    if seeds == 1 {
        "one seed".to_owned()
    } else {
        format!("{seeds} seeds")
    }
}
