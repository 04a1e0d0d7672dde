//! Sizes of a wire's synopses, and the link capacity needed to send them.
//!
//! An epoch's share of the link is divided in this order: a tenth for retransmissions, two fifths for
//! references, at most a fifth for the stash, at most three tenths for the LDAs, and the rest for the
//! sketch.

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

/// A link's utilisation is averaged over many bursts, because workers send in bursts that references
/// divide.
const UTILISATION_WINDOW_NS: u64 = 1_000_000;

/// Default bit rate of a path.
const CAPACITY_BPS: u64 = 10_000_000_000;

/// Bytes that the link adds to a frame: preamble, frame check sequence, gap.
const LINK_OVERHEAD_BYTES: u32 = 24;

/// Bytes of a transmitted cell.
const CELL_BYTES: usize = 16;

/// Body of a reference.
const REFERENCE_BYTES: usize = REFERENCE_FRAME_BYTES - ethernet::BYTES - HEADER_BYTES - TAG_BYTES;

/// Bytes of a packet in a stash.
const STASHED_BYTES: usize = 20;

/// Body of a stash without packets, and of a fragment without shape and elements.
const STASH_BYTES: usize = 5;
const FRAGMENT_BYTES: usize = 12;

/// Bodies: hello with the longest name, marker without shapes and banks, fragment of a tally, a bank, a row's share.
const HELLO_BYTES: usize = 56 + NAME_MAX;
const MARKER_BYTES: usize = 6;
const TALLY_BYTES: usize = 48;
const BANK_BYTES: usize = 12;

/// Approximate body of a report or a request.
const REPORT_BYTES: usize = 256;
const REQUEST_BYTES: usize = 64;

/// Approximate number of hellos a second.
const HELLOS_PER_S: f64 = 2.0;

/// Largest part of a wire's share for references, so that the rest remains for the exchange.
pub const REFERENCES: f64 = 0.4;

/// Other parts of the share: for retransmissions, at most for the stash, at most for LDAs.
const REPEATED: f64 = 0.1;
const STASH: f64 = 0.2;
const LDAS: f64 = 0.3;

/// Least and greatest number of packets in the stash, by the room.
const STASH_PACKETS: (u16, u16) = (16, 256);

/// Least and greatest number of rows of an LDA, by the room.
const LDA_ROWS: (u32, u32) = (32, 1_024);

/// Rows of 32 for each of two banks for heavier losses. With constant losses, the error is then 7 % above that of a
/// single bank sized for them.
const SIDE_ROWS: u32 = 3;

/// Columns of each row of a sketch.
const COLUMNS: (u32, u32) = (16, 65_536);

/// Assumptions for the first epoch: the share of packets lost, and the size of frames on a half-full link.
const FIRST_LOSS: f64 = 0.005;
const MEAN_FRAME_BYTES: f64 = 500.0;

/// Sampled losses for each row, which gives the mean the most samples.
const ALPHA: f64 = 1.0;

/// Bytes on the link of one end's control frames in an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireBytes {
    /// The share of the link: the most they may take.
    pub share: u64,
    /// Markers, hellos, tallies, requests and reports.
    pub signals: u64,
    /// Packets around the rollover.
    pub stash: u64,
    /// The LDAs' cells.
    pub lda: u64,
    /// The sketch's cells.
    pub lds: u64,
    /// References, at most.
    pub references: u64,
}

impl WireBytes {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.signals + self.stash + self.lda + self.lds + self.references
    }

    /// By how much the sum exceeds the share.
    pub fn excess(&self) -> u64 {
        self.total().saturating_sub(self.share)
    }
}

impl From<RliPolicy> for Policy {
    /// A policy with a 0, which validation rejects, becomes one with a 1.
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
    /// Its fixed banks.
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

    /// Most bytes of a wire's control frame, from magic to tag: as much of [`FRAME_ROOM`] as the MTU
    /// allows.
    pub fn wire_frame_bytes(&self, port: usize) -> usize {
        let mtu = self.ports.get(port).map_or(0, |port| usize::from(port.mtu));
        let peer = self.wire(port).and_then(|wire| wire.peer.as_ref());
        let envelope = peer.map_or(0, WirePeer::envelope_bytes);
        FRAME_ROOM.min(mtu).saturating_sub(envelope)
    }

    /// Bytes on the link in addition to a wire's control frame: headers, preamble, frame check sequence,
    /// gap.
    pub fn wire_overhead_bytes(&self, port: usize) -> usize {
        let peer = self.wire(port).and_then(|wire| wire.peer.as_ref());
        let envelope = peer.map_or(0, WirePeer::envelope_bytes);
        envelope + ethernet::BYTES + LINK_OVERHEAD_BYTES as usize
    }

    /// What both ends of a wire keep in an epoch, with all sizes.
    ///
    /// # Errors
    /// [`LayoutError`] without a wire, or for sizes out of range.
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

    /// How the LDA of a wire adapts to losses; `None` if it is fixed, or without a wire.
    pub fn wire_adaptive_lda(&self, port: usize) -> Option<AdaptiveOptions> {
        let wire = self.wire(port)?;
        Plan::new(self, port, wire).adaptive(wire)
    }

    /// Bytes on the link of a wire's control frames in an epoch, by purpose.
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

/// Inputs of the sizes.
struct Plan {
    segments: u16,
    /// Weights in the LDS, by segment.
    weights: Vec<u32>,
    capacity_bps: u64,
    interval_s: f64,
    /// Bytes of an epoch available to control frames.
    share_bytes: f64,
    /// Most bytes of a control frame.
    frame_bytes: usize,
    /// Bytes on the link around a control frame.
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

    /// Bytes on the link of a control frame with a body of this size.
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
