//! Report: what came out of an epoch of a segment. The receiver, who has both halves, tells the
//! sender, so that both show the segment.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | fate | its place in [`EpochFate`], from 0 |
//! | 1 | known | bit 0: mean, 1: deviation, 2: bound, 3: chosen bound |
//! | 2 | method | of the chosen mean, see [`method_number`]; 0: none, and no chosen bound |
//! | 3..7 | usable cells | of the LDA |
//! | 7..11 | cells | of the LDA, usable or not |
//! | 11..15 | moved | packets that were counted in a neighbouring epoch at first |
//! | 15..23 | sent | packets |
//! | 23..31 | received | packets |
//! | 31..39 | lost | packets, signed: below 0 where more came than were sent |
//! | 39..47 | samples | packets in usable cells of the LDA |
//! | 47..55 | mean | of the LDA |
//! | 55..63 | deviation | of the LDA |
//! | 63..71 | bound | of the LDA's mean |
//! | 71..79 | chosen mean | |
//! | 79..87 | chosen bound | |
//!
//! Delays are nanoseconds as IEEE 754 has doubles: finite, bounds and the deviation not below 0;
//! what is not known is 0. Epoch and segment are those of the frame, and the sender's.

use super::{Body, Kind};
use crate::Estimate;
use crate::codec::{ParseError, Put, Reader};
use measure::chooser::Method;
use measure::{labelled_enum, rli};

labelled_enum! {
    /// What became of an epoch: usable, or why not. Where several are true, the first in this order
    /// that is not [`Usable`](Self::Usable) is sent.
    pub enum EpochFate {
        /// Its figures can be trusted.
        Usable = "usable",
        /// The ends are configured differently: no halves can be paired.
        Mismatch = "mismatch",
        /// A clock is not synchronised, or was set in the epoch; or delays fell to where they never were.
        Clock = "clock",
        /// The link went down in it.
        Link = "link",
        /// An end had no memory free to record it in.
        Unmeasured = "unmeasured",
        /// No copy of the marker at one of its ends arrived.
        NoMarkers = "no_markers",
        /// An end did not see it from its beginning: a session began.
        Partial = "partial",
        /// The sender's counts did not arrive in time.
        NoFragments = "no_fragments",
        /// Packets are left that no stash explains: they were reordered further than it reaches.
        Reordered = "reordered",
        /// Packets passed, and too few cells are usable to tell of them.
        TooFewCells = "too_few_cells",
        /// No packet passed.
        Idle = "idle",
    }
}

impl EpochFate {
    /// Number of fates.
    pub const COUNT: usize = Self::ALL.len();
}

/// The methods that a chosen mean may be of; the first has number 1.
pub(super) const METHODS: [Method; 8] = [
    Method::Stamped,
    Method::Hybrid,
    Method::Joint,
    Method::Rli(rli::Method::Sums),
    Method::Lda,
    Method::LdsPaper,
    Method::Prior,
    Method::Combined,
];

/// The number of a method on the wire: 1 stamped, 2 hybrid, 3 joint, 4 RLI, 5 LDA, 6 the LDS paper's,
/// 7 the mean of other flows, 8 hybrid and RLI combined.
pub const fn method_number(method: Method) -> u8 {
    match method {
        Method::Stamped => 1,
        Method::Hybrid => 2,
        Method::Joint => 3,
        Method::Rli(_) => 4,
        Method::Lda => 5,
        Method::LdsPaper => 6,
        Method::Prior => 7,
        Method::Combined => 8,
    }
}

/// What came out of an epoch of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Whether its figures can be trusted, and why not.
    pub fate: EpochFate,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets lost, as the turns were reconciled; below 0 where more came than were sent.
    pub lost: i64,
    /// Packets that were counted in a neighbouring epoch at first.
    pub moved: u32,
    /// The LDA's mean delay in nanoseconds, signed.
    pub mean_ns: Option<f64>,
    /// The LDA's standard deviation of the delay in nanoseconds.
    pub stddev_ns: Option<f64>,
    /// Half the width of the 98 % interval about the LDA's mean in nanoseconds.
    pub bound_ns: Option<f64>,
    /// Packets in usable cells of the LDA.
    pub effective_samples: u64,
    /// Usable cells of the LDA, empty ones included.
    pub usable_cells: u32,
    /// Cells of the LDA.
    pub cells: u32,
    /// The mean of the smallest bound.
    pub chosen: Option<Estimate>,
}

/// A mean that can be sent.
fn mean(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// A width that can be sent.
fn width(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}

/// Reads what `is_known`, and the zeros in place of what is not.
fn delay(
    reader: &mut Reader<'_>,
    what: &'static str,
    is_known: bool,
    sendable: fn(Option<f64>) -> Option<f64>,
) -> Result<Option<f64>, ParseError> {
    let bits: u64 = reader.number(what)?;
    if !is_known {
        let unknown = ParseError::value(what, bits, "0 where it is not known");
        return if bits == 0 { Ok(None) } else { Err(unknown) };
    }
    let allowed = "a finite number, not below 0 unless it is a mean";
    let sent = sendable(Some(f64::from_bits(bits)));
    sent.map(Some).ok_or(ParseError::value(what, bits, allowed))
}

impl Report {
    /// A report of an epoch that came to nothing: no figures.
    pub fn unusable(fate: EpochFate) -> Self {
        Self {
            fate,
            sent: 0,
            received: 0,
            lost: 0,
            moved: 0,
            mean_ns: None,
            stddev_ns: None,
            bound_ns: None,
            effective_samples: 0,
            usable_cells: 0,
            cells: 0,
            chosen: None,
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let number: u8 = reader.number("fate of an epoch")?;
        let fate = EpochFate::ALL
            .get(usize::from(number))
            .ok_or(ParseError::value("fate of an epoch", number, "0 to 10"))?;
        let known: u8 = reader.number("what is known")?;
        if known >= 1 << 4 {
            return Err(ParseError::value("what is known", known, "0 to 15"));
        }
        let is_known = |bit: u8| known >> bit & 1 == 1;
        let number: u8 = reader.number("method")?;
        let method = match number {
            0 => None,
            1..=8 => METHODS.get(usize::from(number) - 1).copied(),
            _ => return Err(ParseError::value("method", number, "0 to 8")),
        };
        if method.is_none() && is_known(3) {
            let allowed = "under 8 where nothing is chosen";
            return Err(ParseError::value("what is known", known, allowed));
        }
        let usable_cells: u32 = reader.number("usable cells")?;
        let cells: u32 = reader.number("cells")?;
        if usable_cells > cells {
            let allowed = "as many as there are cells at most";
            return Err(ParseError::value("usable cells", usable_cells, allowed));
        }
        let moved = reader.number("packets moved")?;
        let sent = reader.number("packets sent")?;
        let received = reader.number("packets received")?;
        let lost = reader.number("packets lost")?;
        let effective_samples = reader.number("samples")?;
        let mean_ns = delay(&mut reader, "mean", is_known(0), mean)?;
        let stddev_ns = delay(&mut reader, "deviation", is_known(1), width)?;
        let bound_ns = delay(&mut reader, "bound", is_known(2), width)?;
        let chosen_ns = delay(&mut reader, "chosen mean", method.is_some(), mean)?;
        let chosen_bound_ns = delay(&mut reader, "chosen bound", is_known(3), width)?;
        reader.end("report")?;
        Ok(Self {
            fate: *fate,
            sent,
            received,
            lost,
            moved,
            mean_ns,
            stddev_ns,
            bound_ns,
            effective_samples,
            usable_cells,
            cells,
            chosen: method.zip(chosen_ns).map(|(method, mean_ns)| Estimate {
                method,
                mean_ns,
                bound_ns: chosen_bound_ns,
            }),
        })
    }
}

/// What cannot be sent (no number, infinite, a width below 0) counts as not known.
impl Body for Report {
    const KIND: Kind = Kind::Report;

    fn emit(&self, out: &mut impl Put) {
        let chosen = self.chosen.filter(|chosen| chosen.mean_ns.is_finite());
        let chosen_bound_ns = width(chosen.and_then(|chosen| chosen.bound_ns));
        let delays = [
            mean(self.mean_ns),
            width(self.stddev_ns),
            width(self.bound_ns),
            chosen.map(|chosen| chosen.mean_ns),
            chosen_bound_ns,
        ];
        let [mean_ns, stddev_ns, bound_ns, _, _] = delays;
        let known = [mean_ns, stddev_ns, bound_ns, chosen_bound_ns]
            .iter()
            .rev()
            .fold(0_u8, |bits, delay| bits << 1 | u8::from(delay.is_some()));
        out.put_number(self.fate as u8);
        out.put_number(known);
        out.put_number(chosen.map_or(0, |chosen| method_number(chosen.method)));
        out.put_number(self.usable_cells.min(self.cells));
        out.put_number(self.cells);
        out.put_number(self.moved);
        out.put_number(self.sent);
        out.put_number(self.received);
        out.put_number(self.lost);
        out.put_number(self.effective_samples);
        for delay in delays {
            out.put_number(delay.map_or(0, f64::to_bits));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (place, fate) in EpochFate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, place);
        }
        for (place, method) in METHODS.into_iter().enumerate() {
            assert_eq!(usize::from(method_number(method)), place + 1);
        }
    }
}
