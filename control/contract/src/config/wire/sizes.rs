//! How large the synopses of a wire are, and what sending them takes of the link.
//!
//! An epoch's share of the link is given out in this order: a tenth is kept for what was lost and
//! is sent once more, two fifths for references, a fifth at most for the stash, three tenths at most
//! for the LDAs; the sketch has what is left.

use std::num::{NonZeroU32, NonZeroU64};

use measure::InvalidArgument;
use measure::lda::LdaLayout;
use measure::lda::adaptive::{AdaptiveLda, AdaptiveOptions};
use measure::lds::LdsLayout;
use measure::packet::header::ethernet;
use measure::rli::{Adaptive, Link, Policy};
use wire::frame::{HEADER_BYTES, Marker, NAME_MAX, REFERENCE_FRAME_BYTES, TAG_BYTES};
use wire::{ReferencePlan, WireLayout};

use super::{Wire, WireAdaptiveLda, WireLda, WireLds, WirePeer};
use crate::config::{Config, LayoutError, Lda, RliPolicy};
use crate::wire::handover::FRAME_ROOM;

/// A worker sends in bursts, and a reference is cut into them: a link's utilisation is that of many bursts.
const UTILISATION_WINDOW_NS: u64 = 1_000_000;

/// Bit rate of a path where none is configured.
const CAPACITY_BPS: u64 = 10_000_000_000;

/// What the link adds to a frame: preamble, frame check sequence, gap.
const LINK_OVERHEAD_BYTES: u32 = 24;

/// Bytes of a cell as it is sent.
const CELL_BYTES: usize = 16;

/// Body of a reference.
const REFERENCE_BYTES: usize = REFERENCE_FRAME_BYTES - ethernet::BYTES - HEADER_BYTES - TAG_BYTES;

/// Bytes of a packet in a stash.
const STASHED_BYTES: usize = 20;

/// Body of a stash without its packets, and of a fragment without shape and elements.
const STASH_BYTES: usize = 5;
const FRAGMENT_BYTES: usize = 12;

/// Bodies of hello, with the longest name, and marker without shapes and banks, of a tally's fragment; a bank, a row's share.
const HELLO_BYTES: usize = 56 + NAME_MAX;
const MARKER_BYTES: usize = 6;
const TALLY_BYTES: usize = 48;
const BANK_BYTES: usize = 12;

/// What a report and a request may have as body, about.
const REPORT_BYTES: usize = 256;
const REQUEST_BYTES: usize = 64;

/// Hellos in a second, about.
const HELLOS_PER_S: f64 = 2.0;

/// Of a wire's share what references may take, so that they leave the rest to what is exchanged.
pub const REFERENCES: f64 = 0.4;

/// Other shares of the share: for what is sent once more, the most for the stash, the most for LDAs.
const REPEATED: f64 = 0.1;
const STASH: f64 = 0.2;
const LDAS: f64 = 0.3;

/// Packets of the stash where there is room, and where there is little.
const STASH_PACKETS: (u16, u16) = (16, 256);

/// Rows of an LDA where there is little room, and where there is enough.
const LDA_ROWS: (u32, u32) = (32, 1_024);

/// Of 32 rows, those of each of two banks for heavier losses. Where losses hold still, the error is then 7 % over that of one
/// bank made for them.
const SIDE_ROWS: u32 = 3;

/// Columns of each row of a sketch.
const COLUMNS: (u32, u32) = (16, 65_536);

/// What the first epoch is prepared for: the share of packets lost, and frames of so many bytes on a link that is half full.
const FIRST_LOSS: f64 = 0.005;
const MEAN_FRAME_BYTES: f64 = 500.0;

/// Sampled losses for each row: the most samples for the mean.
const ALPHA: f64 = 1.0;

/// Bytes on the link that a wire's control frames take in an epoch, this end's alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireBytes {
    /// The share of the link: what they may take.
    pub share: u64,
    /// Markers, hellos, tallies, requests and reports.
    pub signals: u64,
    /// Packets around the epoch's beginning.
    pub stash: u64,
    /// The LDAs' cells.
    pub lda: u64,
    /// The sketch's cells.
    pub lds: u64,
    /// References, at most.
    pub references: u64,
}

impl WireBytes {
    /// All that is known beforehand.
    pub fn total(&self) -> u64 {
        self.signals + self.stash + self.lda + self.lds + self.references
    }

    /// By how much the share is too small.
    pub fn excess(&self) -> u64 {
        self.total().saturating_sub(self.share)
    }
}

impl From<RliPolicy> for Policy {
    /// Policies with a 0, which are refused, become those with a 1.
    fn from(configured: RliPolicy) -> Self {
        let packets = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let interval_ns =
            |us: u32| NonZeroU64::new(u64::from(us) * 1_000).unwrap_or(NonZeroU64::MIN);
        match configured {
            RliPolicy::Count { packets: n } => Self::Count {
                packets: packets(n),
            },
            RliPolicy::Time { interval_us } => Self::Time {
                interval_ns: interval_ns(interval_us),
            },
            RliPolicy::Either {
                packets: n,
                interval_us,
            } => Self::Either {
                packets: packets(n),
                interval_ns: interval_ns(interval_us),
            },
            RliPolicy::Adaptive => Self::Adaptive(Adaptive::default()),
        }
    }
}

impl WirePeer {
    /// Bytes of the IP and UDP headers around a control frame.
    pub fn envelope_bytes(&self) -> usize {
        if self.remote.is_ipv6() { 48 } else { 28 }
    }
}

impl WireLda {
    /// Its banks that stay as they are.
    pub(crate) fn fixed(&self) -> Lda {
        Lda {
            banks: self.banks.clone(),
        }
    }
}

impl Config {
    /// The bit rate of a wire's path.
    pub fn wire_capacity_bps(&self, port: usize) -> u64 {
        let of_port = self.ports.get(port).and_then(|p| p.egress.capacity_bps);
        let of_wire = self.wire(port).and_then(|wire| wire.capacity_bps);
        of_wire.or(of_port).unwrap_or(CAPACITY_BPS)
    }

    /// Most bytes of a wire's control frame, from magic to tag: what the MTU leaves of
    /// [`FRAME_ROOM`].
    pub fn wire_frame_bytes(&self, port: usize) -> usize {
        let mtu = self.ports.get(port).map_or(0, |port| usize::from(port.mtu));
        let peer = self.wire(port).and_then(|wire| wire.peer.as_ref());
        let envelope = peer.map_or(0, WirePeer::envelope_bytes);
        FRAME_ROOM.min(mtu).saturating_sub(envelope)
    }

    /// What a wire's control frame takes on the link beside its bytes: headers, preamble, frame check
    /// sequence, gap.
    pub fn wire_overhead_bytes(&self, port: usize) -> usize {
        let peer = self.wire(port).and_then(|wire| wire.peer.as_ref());
        let envelope = peer.map_or(0, WirePeer::envelope_bytes);
        envelope + ethernet::BYTES + LINK_OVERHEAD_BYTES as usize
    }

    /// What both ends of a wire keep in an epoch, all sizes decided.
    ///
    /// # Errors
    /// [`LayoutError`] where there is no wire, or for sizes out of range.
    pub fn wire_layout(&self, port: usize) -> Result<WireLayout, LayoutError> {
        let wire = self.wire(port).ok_or(LayoutError::NoWire { port })?;
        let plan = Plan::new(self, port, wire);
        let lda = match plan.adaptive(wire) {
            Some(options) => AdaptiveLda::new(options)
                .map(|lda| lda.layout().clone())
                .map_err(LayoutError::of("wire.lda.adaptive")),
            None => (wire.lda.clone().unwrap_or_default().fixed().layout())
                .map_err(LayoutError::of("wire.lda.banks")),
        }?;
        let stash_packets = wire.stash_packets.unwrap_or_else(|| plan.stash_packets());
        let lds = wire.lds.as_ref();
        let lds = lds.map(|lds| plan.lds(lds, &lda, stash_packets));
        let lds = lds.transpose().map_err(LayoutError::of("wire.lds"))?;
        let link = Link::new(plan.capacity_bps, LINK_OVERHEAD_BYTES);
        let references = wire.rli.as_ref().map(|rli| {
            let policy = rli.policy.unwrap_or(RliPolicy::Adaptive);
            Ok(ReferencePlan {
                policy: match policy.into() {
                    Policy::Adaptive(paper) => Policy::Adaptive(Adaptive {
                        window_ns: UTILISATION_WINDOW_NS,
                        ..paper
                    }),
                    other => other,
                },
                method: rli.method.method(false),
                link: link.map_err(LayoutError::of("wire.capacity_bps"))?,
                buffer_packets: policy.buffer_packets(),
                named_flows: self.prometheus.top_flows,
            })
        });
        Ok(WireLayout {
            segments: plan.segments,
            lda,
            lds,
            stash_packets,
            flows: wire.flows,
            references: references.transpose()?,
        })
    }

    /// How the LDA of a wire follows the losses; `None` where it does not, and where there is no wire.
    pub fn wire_adaptive_lda(&self, port: usize) -> Option<AdaptiveOptions> {
        let wire = self.wire(port)?;
        Plan::new(self, port, wire).adaptive(wire)
    }

    /// What a wire's control frames take of the link in an epoch, by what they are for.
    ///
    /// # Errors
    /// Those of [`Config::wire_layout`].
    pub fn wire_bytes(&self, port: usize) -> Result<WireBytes, LayoutError> {
        let wire = self.wire(port).ok_or(LayoutError::NoWire { port })?;
        let layout = self.wire_layout(port)?;
        let plan = Plan::new(self, port, wire);
        let segments = u64::from(layout.segments);
        let most = whole(plan.share_bytes * REFERENCES);
        let references = match layout.references.map(|references| references.policy) {
            Some(Policy::Time { interval_ns }) => {
                let each = plan.interval_s * 1e9 / interval_ns.get() as f64;
                most.min(whole(each.ceil()) * segments * plan.on_link(REFERENCE_BYTES))
            }
            Some(_) => most,
            None => 0,
        };
        let lds = layout.lds.as_ref();
        Ok(WireBytes {
            share: whole(plan.share_bytes),
            signals: plan.signals(&layout.lda),
            stash: plan.stash(layout.stash_packets),
            lda: segments * plan.lda_bytes(&layout.lda),
            lds: lds.map_or(0, |lds| plan.fragments(lds_shape_bytes(lds), lds.cells())),
            references,
        })
    }
}

/// What sizes follow from.
struct Plan {
    segments: u16,
    /// In the LDS, by segment.
    weights: Vec<u32>,
    capacity_bps: u64,
    interval_s: f64,
    /// Bytes of an epoch that control frames may take.
    share_bytes: f64,
    /// Most bytes of a control frame.
    frame_bytes: usize,
    /// Around it, on the link.
    around_bytes: usize,
}

impl Plan {
    fn new(config: &Config, port: usize, wire: &Wire) -> Self {
        let capacity_bps = config.wire_capacity_bps(port);
        let interval_s = config.measurement.interval().as_secs_f64();
        let segments = config.wire_segments(port);
        let weight = |name: &String| {
            let class = config.classes.iter().find(|class| class.name == *name);
            class.map_or(1, |class| class.lds_weight)
        };
        Self {
            segments: u16::try_from(segments.len()).unwrap_or(u16::MAX).max(1),
            weights: segments.iter().map(weight).collect(),
            capacity_bps,
            interval_s,
            share_bytes: capacity_bps as f64 / 8.0 * interval_s * wire.share,
            frame_bytes: config.wire_frame_bytes(port),
            around_bytes: config.wire_overhead_bytes(port),
        }
    }

    /// Bytes on the link of a control frame with a body of so many.
    fn on_link(&self, body_bytes: usize) -> u64 {
        (HEADER_BYTES + body_bytes + TAG_BYTES + self.around_bytes) as u64
    }

    /// Bytes on the link of `number` things of `each` bytes, in frames whose bodies begin with
    /// `fixed` bytes.
    fn listed(&self, fixed: usize, each: usize, number: usize) -> u64 {
        let full = number / self.in_frame(fixed, each);
        let rest = number % self.in_frame(fixed, each);
        let all = full as u64 * self.on_link(fixed + each * self.in_frame(fixed, each));
        let last = if rest > 0 {
            self.on_link(fixed + each * rest)
        } else {
            0
        };
        all + last
    }

    /// How many of these a frame holds.
    fn in_frame(&self, fixed: usize, each: usize) -> usize {
        let room = self
            .frame_bytes
            .saturating_sub(HEADER_BYTES + TAG_BYTES + fixed);
        (room / each).max(1)
    }

    fn fragments(&self, shape_bytes: usize, cells: usize) -> u64 {
        self.listed(FRAGMENT_BYTES + shape_bytes, CELL_BYTES, cells)
    }

    fn lda_bytes(&self, lda: &LdaLayout) -> u64 {
        self.fragments(lda_shape_bytes(lda.banks().count()), lda.cells())
    }

    /// Both lists of an epoch, each sent twice.
    fn stash(&self, packets: u16) -> u64 {
        4 * self.listed(STASH_BYTES, STASHED_BYTES, packets.into())
    }

    fn signals(&self, lda: &LdaLayout) -> u64 {
        let banks = lda.banks().count();
        let markers = u64::from(Marker::COPIES) * self.on_link(MARKER_BYTES + banks * BANK_BYTES);
        let shapes = 8 + lda_shape_bytes(banks) + 64;
        let hellos = whole((HELLOS_PER_S * self.interval_s).ceil());
        let each = [FRAGMENT_BYTES + TALLY_BYTES, REPORT_BYTES, REQUEST_BYTES];
        let each: u64 = each.into_iter().map(|body| self.on_link(body)).sum();
        markers + hellos * self.on_link(HELLO_BYTES + shapes) + u64::from(self.segments) * each
    }

    fn stash_packets(&self) -> u16 {
        let (fewest, most) = STASH_PACKETS;
        let fits = |packets: &u16| self.stash(*packets) as f64 <= self.share_bytes * STASH;
        let powers = (0..).map(|power| most >> power);
        let mut powers = powers.take_while(|packets| *packets > fewest);
        powers.find(fits).unwrap_or(fewest)
    }

    /// How banks follow the losses, if they do.
    fn adaptive(&self, wire: &Wire) -> Option<AdaptiveOptions> {
        let WireAdaptiveLda { rows, worst_loss } = match &wire.lda {
            None => WireAdaptiveLda::default(),
            Some(lda) => lda.adaptive?,
        };
        let packets = self.capacity_bps as f64 / 8.0 * self.interval_s / 2.0 / MEAN_FRAME_BYTES;
        let options = |rows: u32| {
            let side = rows * SIDE_ROWS / 32;
            AdaptiveOptions {
                bank_rows: vec![rows - 2 * side, side, side],
                first_loss: FIRST_LOSS.min(worst_loss),
                worst_loss,
                alpha: ALPHA,
                epoch_packets: whole(packets),
            }
        };
        if let Some(rows) = rows {
            return Some(options(rows));
        }
        let (fewest, most) = LDA_ROWS;
        let fits = |rows: &u32| {
            let banks = options(*rows).bank_rows.len();
            let all = self.fragments(lda_shape_bytes(banks), *rows as usize);
            (all * u64::from(self.segments)) as f64 <= self.share_bytes * LDAS
        };
        let mut halves = (0..).map(|power| most >> power);
        let rows = halves.find(|rows| *rows <= fewest || fits(rows))?;
        Some(options(rows))
    }

    fn lds(
        &self,
        lds: &WireLds,
        lda: &LdaLayout,
        stash_packets: u16,
    ) -> Result<LdsLayout, InvalidArgument> {
        let rows = u32::try_from(lds.rows.len()).unwrap_or(u32::MAX).max(1);
        let laid_out = |columns| {
            LdsLayout::new(columns, lds.virtual_cells, &lds.rows)?.with_weights(&self.weights)
        };
        if let Some(cells) = lds.cells {
            return laid_out(cells / rows);
        }
        let lda_bytes = u64::from(self.segments) * self.lda_bytes(lda);
        let taken = self.signals(lda) + self.stash(stash_packets) + lda_bytes;
        let left = self.share_bytes * (1.0 - REPEATED - REFERENCES) - taken as f64;
        let (fewest, most) = COLUMNS;
        let fewest = fewest.max(lds.virtual_cells).min(most);
        let shape_bytes = lds_shape_bytes(&laid_out(fewest)?);
        let in_frame = self.in_frame(FRAGMENT_BYTES + shape_bytes, CELL_BYTES);
        let frame = self.on_link(FRAGMENT_BYTES + shape_bytes + in_frame * CELL_BYTES);
        let cells = whole(left / frame as f64) * in_frame as u64;
        let columns = u32::try_from(cells / u64::from(rows)).unwrap_or(u32::MAX);
        laid_out(columns.clamp(fewest, most))
    }
}

fn lda_shape_bytes(banks: usize) -> usize {
    1 + banks * BANK_BYTES
}

fn lds_shape_bytes(lds: &LdsLayout) -> usize {
    18 + 8 * lds.rows()
}

/// A number of bytes or the like.
fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates; sizes are no less than 0"
    )]
    let whole = number.max(0.0) as u64;
    whole
}
