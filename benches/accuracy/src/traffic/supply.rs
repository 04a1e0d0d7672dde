//! Where an experiment's traffic comes from, generated or captured.

use anyhow::Result;

use super::capture::Capture;
use super::{Profile, Traffic};
use crate::experiment::Setting;

/// The rate of the link in all experiments on a queue.
pub const CAPACITY_BPS: u64 = 10_000_000_000;
/// The share of packets (of a capture: of flows) that is measured.
pub const REGULAR_SHARE: f64 = 0.33;

/// How unevenly packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub fn new(setting: &Setting) -> Result<Self> {
        let capture = setting.capture.as_deref().map(Capture::read);
        Ok(Self {
            capture: capture.transpose()?,
            scale: setting.scale,
        })
    }

    /// The kinds of unevenness that it has, the most uneven last.
    pub fn wanders(&self) -> &'static [Wander] {
        match self.capture {
            None => &[Wander::Light, Wander::Heavy],
            Some(_) => &[Wander::AsCaptured],
        }
    }

    /// Packets that ask for `utilisation` of the link: two seconds of them, times the scale; of a
    /// capture all, whatever the seed.
    pub fn traffic(&self, utilisation: f64, wander: Wander, seed: u64) -> Traffic {
        if let Some(capture) = &self.capture {
            return capture.at_load(CAPACITY_BPS, utilisation, REGULAR_SHARE);
        }
        let mut profile = Profile::acceptance(utilisation, wander.strength());
        profile.duration_s *= self.scale;
        profile.draw(seed)
    }
}

/// So many seeds, for the text above a table.
pub fn in_words(seeds: u32) -> String {
    if seeds == 1 {
        "one seed".to_owned()
    } else {
        format!("{seeds} seeds")
    }
}
