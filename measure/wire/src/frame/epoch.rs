//! Frames about one epoch: lists, requests, reports and least delays.

use std::mem::discriminant;
use std::ops::Range;

use arrayvec::ArrayVec;

use super::{Body, Kind, body_room};
use crate::Estimate;
use crate::codec::{Element, ParseError, Put, Reader, Shape};
use measure::chooser::Method;
use measure::packet::{FlowHash, PacketHash};
use measure::{labelled_enum, rli};

/// Bytes before the packets.
const FIXED_BYTES: usize = 5;

/// A side of the rollover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The last packets of the epoch that ended.
    Before,
    /// The first packets of the epoch that begins.
    After,
}

/// A packet near the rollover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stashed {
    /// Its flow.
    pub flow: FlowHash,
    /// Its time, as in a cell's sum: since the start of its epoch.
    pub time: u64,
    /// As in a cell: the upper half of its packet hash.
    pub digest: u32,
}

impl Stashed {
    /// A packet that was seen.
    pub fn new(flow: FlowHash, PacketHash(hash): PacketHash, time: u64) -> Self {
        Self {
            flow,
            time,
            digest: (hash >> 32) as u32,
        }
    }
}

impl Element for Stashed {
    const BYTES: usize = 20;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.flow.0);
        out.put_number(self.time);
        out.put_number(self.digest);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            flow: FlowHash(reader.number("flow of a packet")?),
            time: reader.number("time of a packet")?,
            digest: reader.number("digest of a packet")?,
        })
    }
}

/// Stash: the packets around a rollover, one by one, so that misplaced ones can be moved.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0 | side | 0: the last of the epoch that ended, 1: the first of the one that begins |
/// | 1..3 | total | packets in the whole list |
/// | 3..5 | first | place of the first one here in the list, from 0 |
/// | 5.. | packets | 20 bytes each, in the order of sending |
///
/// A packet: flow hash (8), time (8), digest (4): the upper half of its packet hash. The frame's
/// epoch is the one that begins.
///
/// A digest and a flow hash are enough: the other end has the packet's full hash together with its own
/// digest, and moves packets that it counted itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stash<'a> {
    side: Side,
    total: u16,
    first: u16,
    packets: &'a [Stashed],
}

impl<'a> Stash<'a> {
    /// Divides a list (at most 65,535 packets, the rest is ignored) into parts for frames of at most
    /// `frame_bytes`; none if not even one packet fits.
    pub fn parts(
        side: Side,
        list: &'a [Stashed],
        frame_bytes: usize,
    ) -> impl Iterator<Item = Self> {
        let capacity = body_room(frame_bytes).saturating_sub(FIXED_BYTES) / Stashed::BYTES;
        let total = u16::try_from(list.len()).unwrap_or(u16::MAX);
        let list = if capacity == 0 { &[] } else { list };
        list.get(..total.into())
            .unwrap_or(list)
            .chunks(capacity.max(1))
            .enumerate()
            .map(move |(part, packets)| Self {
                side,
                total,
                // Less than the total.
                first: u16::try_from(part * capacity).unwrap_or(u16::MAX),
                packets,
            })
    }
}

fn emit_head(side: Side, total: u16, first: u16, out: &mut impl Put) {
    out.put_number(side as u8);
    out.put_number(total);
    out.put_number(first);
}

impl Body for Stash<'_> {
    const KIND: Kind = Kind::Stash;

    fn emit(&self, out: &mut impl Put) {
        emit_head(self.side, self.total, self.first, out);
        self.packets.iter().for_each(|packet| packet.emit(out));
    }
}

/// A view of a received part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StashView<'a> {
    side: Side,
    total: u16,
    first: u16,
    packets: &'a [[u8; Stashed::BYTES]],
}

impl<'a> StashView<'a> {
    /// Parses a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`Stash`] writes.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let sides = [Side::Before, Side::After];
        let side = reader.place("side of a stash", &sides, "0 or 1")?;
        let total = reader.number("packets of a stash")?;
        let first: u16 = reader.number("first packet of a stash")?;
        let (packets, rest) = reader.rest().as_chunks();
        if !rest.is_empty() {
            return Err(ParseError::Trailing {
                what: "packets of a stash",
                left: rest.len(),
            });
        }
        if usize::from(first) + packets.len() > usize::from(total) {
            let allowed = "as many as the list has at least";
            return Err(ParseError::value("packets of a stash", total, allowed));
        }
        Ok(Self {
            side,
            total,
            first,
            packets,
        })
    }

    /// The side of the rollover.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Packets in the whole list.
    pub fn total(&self) -> u16 {
        self.total
    }

    /// Index of the first one in the whole list.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The packets.
    pub fn packets(&self) -> impl Iterator<Item = Stashed> + use<'a> {
        let packets = self.packets.iter();
        packets.filter_map(|bytes| Stashed::parse(&mut Reader::new(bytes)).ok())
    }
}

impl Body for StashView<'_> {
    const KIND: Kind = Kind::Stash;

    fn emit(&self, out: &mut impl Put) {
        emit_head(self.side, self.total, self.first, out);
        out.put(self.packets.as_flattened());
    }
}

/// Most ranges of a request.
pub const RANGES_MAX: usize = 128;

/// Request: missing elements to retransmit.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0 | synopsis | see [`Shape`] |
/// | 1 | ranges | how many, 1 to 128 |
/// | 2.. | range | first element (4), count (4, at least 1); rising, with gaps between |
///
/// Epoch and segment are those of the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    synopsis: u8,
    ranges: ArrayVec<Range<u32>, RANGES_MAX>,
}

impl Request {
    /// Requests the missing ranges of a synopsis ([`Assembler::missing`](crate::codec::Assembler::missing):
    /// ascending, with gaps between); `None` if none is missing. If there are more than [`RANGES_MAX`], the
    /// last range covers all further ones.
    pub fn new(shape: &Shape, missing: impl IntoIterator<Item = Range<u32>>) -> Option<Self> {
        let mut ranges = ArrayVec::<Range<u32>, RANGES_MAX>::new();
        for range in missing {
            if let Err(full) = ranges.try_push(range)
                && let Some(last) = ranges.last_mut()
            {
                last.end = full.element().end;
            }
        }
        (!ranges.is_empty()).then(|| Self {
            synopsis: shape.synopsis(),
            ranges,
        })
    }

    /// Whether it refers to the synopsis of this shape.
    pub fn is_for(&self, shape: &Shape) -> bool {
        self.synopsis == shape.synopsis()
    }

    /// The ranges to retransmit: pass them to [`fragments`](crate::codec::fragments).
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// Parses a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let synopsis = reader.number("synopsis")?;
        if !Shape::SYNOPSES.contains(&synopsis) {
            return Err(ParseError::value("synopsis", synopsis, "1, 2 or 6"));
        }
        let count: u8 = reader.number("number of ranges")?;
        if !(1..=RANGES_MAX).contains(&count.into()) {
            return Err(ParseError::value("number of ranges", count, "1 to 128"));
        }
        let mut ranges = ArrayVec::<Range<u32>, RANGES_MAX>::new();
        for _ in 0..count {
            let start: u32 = reader.number("first element of a range")?;
            let length: u32 = reader.number("count of a range")?;
            let after = ranges.last().is_none_or(|before| before.end < start);
            let end = start.checked_add(length).filter(|_| length > 0 && after);
            let end = end.ok_or(ParseError::value(
                "first element of a range",
                start,
                "behind the range before it, with one element at least",
            ))?;
            // At most as many as there is room for.
            let _ = ranges.try_push(start..end);
        }
        reader.end("request")?;
        Ok(Self { synopsis, ranges })
    }
}

impl Body for Request {
    const KIND: Kind = Kind::Request;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.synopsis);
        #[expect(clippy::cast_possible_truncation, reason = "128 at most")]
        out.put_number(self.ranges.len() as u8);
        for range in &self.ranges {
            out.put_number(range.start);
            out.put_number(range.end - range.start);
        }
    }
}

labelled_enum! {
    /// Outcome of an epoch: usable, or why not. If several reasons apply, the first in this order other
    /// than [`Usable`](Self::Usable) is sent.
    pub enum EpochFate {
        /// Its figures can be trusted.
        Usable = "usable",
        /// The ends are configured differently: no halves can be paired.
        Mismatch = "mismatch",
        /// A clock is not synchronised, or was set during the epoch; or delays fell to an unprecedented
        /// low.
        Clock = "clock",
        /// The link went down during it.
        Link = "link",
        /// An end had no free memory to record it.
        Unmeasured = "unmeasured",
        /// No copy of the marker at one of its ends arrived.
        NoMarkers = "no_markers",
        /// An end did not see it from its beginning, because a session began.
        Partial = "partial",
        /// The sender's counts did not arrive in time.
        NoFragments = "no_fragments",
        /// Some packets are in no stash: they were reordered further than it reaches.
        Reordered = "reordered",
        /// Packets passed, but too few cells are usable.
        TooFewCells = "too_few_cells",
        /// No packet passed.
        Idle = "idle",
    }
}

impl EpochFate {
    /// Number of outcomes.
    pub const COUNT: usize = Self::ALL.len();
}

/// The methods of a chosen mean; the first has number 1.
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

/// The number of a method on the wire: 1 stamped, 2 hybrid, 3 joint, 4 RLI, 5 LDA, 6 the LDS paper's, 7 the
/// mean of other flows, 8 hybrid and RLI combined.
fn method_number(method: Method) -> u8 {
    let mut numbered = (1..).zip(METHODS);
    let found = numbered.find(|(_, other)| discriminant(other) == discriminant(&method));
    found.map_or(0, |(number, _)| number)
}

/// Report: the results of an epoch of a segment. The receiver, which has both halves, sends it to the
/// sender, so that both show the segment.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0 | fate | its place in [`EpochFate`], from 0 |
/// | 1 | known | bit 0: mean, 1: deviation, 2: bound, 3: chosen bound |
/// | 2 | method | of the chosen mean, see `method_number`; 0: none, and no chosen bound |
/// | 3..7 | usable cells | of the LDA |
/// | 7..11 | cells | of the LDA, usable or not |
/// | 11..15 | moved | packets first counted in a neighbouring epoch |
/// | 15..23 | sent | packets |
/// | 23..31 | received | packets |
/// | 31..39 | lost | packets, signed: negative if more arrived than were sent |
/// | 39..47 | samples | packets in usable cells of the LDA |
/// | 47..55 | mean | of the LDA |
/// | 55..63 | deviation | of the LDA |
/// | 63..71 | bound | of the LDA's mean |
/// | 71..79 | chosen mean | |
/// | 79..87 | chosen bound | |
///
/// Delays are nanoseconds as IEEE 754 doubles: finite; bounds and the deviation are not negative; unknown
/// ones are 0. Epoch and segment are those of the frame, and the sender's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Whether its figures can be trusted, and why not.
    pub fate: EpochFate,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets lost after reconciling rollovers; negative if more arrived than were sent.
    pub lost: i64,
    /// Packets first counted in a neighbouring epoch.
    pub moved: u32,
    /// The LDA's mean delay in nanoseconds, signed.
    pub mean_ns: Option<f64>,
    /// The LDA's standard deviation of the delay in nanoseconds.
    pub stddev_ns: Option<f64>,
    /// Half-width of the 98 % interval around the LDA's mean in nanoseconds.
    pub bound_ns: Option<f64>,
    /// Packets in usable cells of the LDA.
    pub effective_samples: u64,
    /// Usable cells of the LDA, including empty ones.
    pub usable_cells: u32,
    /// Cells of the LDA.
    pub cells: u32,
    /// The mean with the smallest bound.
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

/// Reads a delay if `is_known`, else a zero in its place.
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
    /// A report of an unusable epoch: no figures.
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

    /// Parses a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let fate = reader.place("fate of an epoch", &EpochFate::ALL, "0 to 10")?;
        let known: u8 = reader.number_in("what is known", 0..=15, "0 to 15")?;
        let is_known = |bit: u8| known >> bit & 1 == 1;
        let number: u8 = reader.number_in("method", 0..=8, "0 to 8")?;
        let method = METHODS.get(usize::from(number).wrapping_sub(1)).copied();
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
            fate,
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

/// Figures that cannot be sent (NaN, infinite, a negative width) count as unknown.
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

/// Floor: the least delay of an epoch of arriving packets, sent as soon as the epoch has ended, so that both ends
/// know those of both directions when they judge their own.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0..8 | least delay | of a reference, ns, signed |
///
/// The frame's epoch is the sender's of the arriving packets, as in a report; it covers all segments. Only sent to
/// ends of minor version 1 and later; earlier ones reject its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// In nanoseconds; negative if clocks differ by more than the path's delay.
    pub least_delay_ns: i64,
}

impl Floor {
    /// Parses a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let least_delay_ns = reader.number("least delay")?;
        reader.end("floor")?;
        Ok(Self { least_delay_ns })
    }
}

impl Body for Floor {
    const KIND: Kind = Kind::Floor;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.least_delay_ns);
    }
}
