//! The receiver's end of a wire, in the worker that owns the port.
//!
//! ```text
//!  .. data | marker e+1 | data data | reference | data ..
//!     into   seal e,      into e+1    estimates of what lies between it and the one before,
//!     e      open e+1                 flow by flow and for the segment, into e+1
//! ```

use arrayvec::ArrayVec;

use super::{Marks, SEGMENTS_MAX, SealedWire, WireError, WireFlows, WireLayout, WireShard};
use crate::frame::{Kind, Marker, Reference, Refusal, Verifier};
use crate::session::{KeyRing, Session};
use measure::observation::{End, Observation};
#[cfg(feature = "planted")]
use measure::planted;
use measure::rli::{self, Estimates, ReceiverConfig, Run};
use measure::time::Epoch;

/// Packets looked up together.
const RUN_MAX: usize = 64;

/// Outcome of a received control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Accepted and processed.
    Taken(Kind),
    /// Accepted, for the control core.
    Pass(Kind),
    /// Rejected; nothing has changed.
    Refused(Refusal),
}

/// Source of empty shards and destination of sealed ones.
pub trait Shards {
    /// Takes an empty shard; if `None`, the epoch is not measured.
    fn take_empty(&mut self) -> Option<Box<WireShard>>;

    /// Passes on a sealed shard.
    fn give(&mut self, sealed: SealedWire);
}

/// The receiver's end of a wire.
#[derive(Debug)]
pub struct Receiver {
    verifier: Verifier,
    is_in_session: bool,
    /// The epoch of the latest rollover known in the session.
    turn: Option<Epoch>,
    /// Counts since then; without a rollover, counts of another session.
    open: Option<SealedWire>,
    /// Disordered intervals until the last rollover.
    disordered: u64,
    /// By segment; empty without RLI.
    streams: ArrayVec<rli::Receiver<u32>, { SEGMENTS_MAX as usize }>,
}

impl Receiver {
    /// An end without a session, which accepts hellos under any of `keys`. Allocates all memory.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn new(layout: &WireLayout, keys: KeyRing) -> Result<Self, WireError> {
        layout.check()?;
        let mut streams = ArrayVec::new();
        if let Some(plan) = layout.references {
            for segment in 0..layout.segments {
                let stream = WireLayout::stream(segment);
                streams.push(rli::Receiver::new(ReceiverConfig {
                    buffer_packets: plan.buffer_packets,
                    ..ReceiverConfig::new(stream, plan.method, plan.link)
                })?);
            }
        }
        Ok(Self {
            verifier: Verifier::new(keys),
            is_in_session: false,
            turn: None,
            open: None,
            disordered: 0,
            streams,
        })
    }

    /// Starts a session: packets count from its first marker on. The epoch in progress is partial, and is
    /// passed on when the marker arrives.
    pub fn begin(&mut self, session: Session) {
        self.end();
        self.verifier.begin(session);
        self.is_in_session = true;
    }

    /// Continues the session under another name and key: frames of both are accepted until the old one is
    /// [forgotten](Self::forget), and counts are kept.
    pub fn renew(&mut self, session: Session) {
        self.verifier.renew(session);
    }

    /// Rejects frames of the session before the last renewal.
    pub fn forget(&mut self) {
        self.verifier.forget();
    }

    /// Accepts frames under these keys only. The session continues.
    pub fn set_keys(&mut self, keys: KeyRing) {
        self.verifier.set_keys(keys);
    }

    /// Ends the session: only hellos are accepted, and nothing is recorded.
    pub fn end(&mut self) {
        self.verifier.end();
        self.is_in_session = false;
        self.restart_streams();
        self.mark(|marks| marks.is_partial = true);
        self.turn = None;
    }

    /// Records data packets in order of arrival, all at one time: nanoseconds of TAI.
    #[inline]
    pub fn received(&mut self, observations: &[Observation]) {
        if !self.is_in_session {
            return;
        }
        let mut shard = open_shard(self.turn, &mut self.open);
        if let Some(shard) = &mut shard {
            shard.record(End::Receiver, observations);
        }
        let mut flows = shard.map(|shard| &mut shard.flows);
        let epoch = self.turn.unwrap_or_default().tag();
        let is_alike = |one: &Observation, other: &Observation| {
            (one.segment, one.bytes) == (other.segment, other.bytes)
        };
        let runs = observations.chunk_by(is_alike);
        for run in runs.flat_map(|run| run.chunks(RUN_MAX)) {
            let Some(first) = run.first() else { continue };
            let mut slots = ArrayVec::<u32, RUN_MAX>::new();
            let mut digest = 0;
            for observation in run {
                digest ^= observation.packet.0;
                slots.push(match &mut flows {
                    Some(flows) => flows.count(observation.flow, observation.segment, first.bytes),
                    None => WireFlows::OTHER,
                });
            }
            let segment = usize::from(first.segment.0);
            let Some(stream) = self.streams.get_mut(segment) else {
                continue;
            };
            let run = Run {
                flows: &slots,
                digest,
                bytes: first.bytes,
                received_ns: first.time,
                epoch,
            };
            stream.regular_run(&run, &mut sink(flows.as_deref_mut()));
        }
    }

    /// Processes a frame with the magic that arrived at `tai_ns`, from behind the Ethernet or UDP header.
    /// `link_bytes` is the length of the whole frame, as in [`Observation::bytes`].
    pub fn control(
        &mut self,
        frame: &[u8],
        link_bytes: u32,
        tai_ns: u64,
        shards: &mut impl Shards,
    ) -> Control {
        let control = self.verifier.open(frame).and_then(|frame| {
            let kind = frame.kind();
            match kind {
                Kind::Marker => {
                    let marker = Marker::parse(frame.body())?;
                    self.turn(frame.header().epoch, &marker, shards);
                }
                Kind::Reference => {
                    let reference = Reference::parse(frame.body())?.with(&frame.header());
                    self.reference(&reference, link_bytes, tai_ns);
                }
                _ => return Ok(Control::Pass(kind)),
            }
            Ok(Control::Taken(kind))
        });
        control.unwrap_or_else(Control::Refused)
    }

    /// The sender's epoch in which packets count; none before the first rollover of a session.
    pub fn epoch(&self) -> Option<Epoch> {
        self.turn
    }

    /// Notes that the link went down.
    pub fn link_lost(&mut self) {
        self.mark(|marks| marks.is_link_lost = true);
    }

    /// Notes that the clock was set.
    pub fn clock_set(&mut self) {
        // No interval may span the step.
        self.restart_streams();
        self.mark(|marks| marks.is_clock_set = true);
    }

    /// Processes a copy of a marker: the first one to arrive ends the epoch.
    fn turn(&mut self, epoch: Epoch, marker: &Marker, shards: &mut impl Shards) {
        #[cfg(feature = "planted")]
        let epoch = if self.turn == Some(epoch) && planted::is(planted::Bug::DoubledMarker) {
            epoch.next()
        } else {
            epoch
        };
        if self.turn.is_some_and(|latest| epoch <= latest) {
            return;
        }
        let has_neighbour = self.seal(epoch, shards);
        self.turn = Some(epoch);
        self.open = shards.take_empty().map(|mut shard| {
            shard.relay(&marker.lda);
            shard.marks = Marks {
                // Packets that overtook the marker are missing, unless the previous epoch has them.
                is_partial: !has_neighbour,
                late_marker_packets: marker.packets_since,
                ..Marks::default()
            };
            SealedWire { epoch, shard }
        });
    }

    /// Seals the open epoch, because `begins` begins; returns whether it was an epoch of this session.
    fn seal(&mut self, begins: Epoch, shards: &mut impl Shards) -> bool {
        let mut open = self.open.take();
        let tag = self.turn.unwrap_or_default().tag();
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let mut shard = open.as_mut().map(|open| open.shard.as_mut());
            // Packets that wait for a reference have slots in the shard to be sealed.
            let flows = shard.as_mut().map(|shard| &mut shard.flows);
            stream.flush_epoch(tag, &mut sink(flows));
            let rli = stream.take_segment();
            let segment = shard.and_then(|shard| shard.segments.get_mut(index));
            if let Some(segment) = segment {
                segment.rli = rli;
            }
        }
        let of_streams = self.streams.iter().map(rli::Receiver::counters);
        let disordered = of_streams
            .map(|counters| counters.disordered_intervals)
            .sum();
        let before = std::mem::replace(&mut self.disordered, disordered);
        let Some(mut open) = open else { return false };
        let disordered = u32::try_from(disordered - before).unwrap_or(u32::MAX);
        open.shard.marks.disordered_intervals = disordered;
        let is_of_session = self.turn.is_some();
        if is_of_session {
            open.shard.marks.end(open.epoch, begins);
        }
        shards.give(open);
        is_of_session
    }

    fn reference(&mut self, reference: &rli::Reference, link_bytes: u32, tai_ns: u64) {
        let segment = reference.stream.segment.0;
        let mut shard = open_shard(self.turn, &mut self.open);
        if let Some(shard) = &mut shard {
            let delay_ns = tai_ns.wrapping_sub(reference.sent_ns).cast_signed();
            let marks = &mut shard.marks;
            marks.references = marks.references.saturating_add(1);
            let least_ns = marks.least_delay_ns.map_or(delay_ns, |ns| ns.min(delay_ns));
            marks.least_delay_ns = Some(least_ns);
        }
        if let Some(stream) = self.streams.get_mut(usize::from(segment)) {
            let reference = rli::Reference {
                stream: WireLayout::stream(segment),
                ..*reference
            };
            let flows = shard.map(|shard| &mut shard.flows);
            stream.reference(&reference, link_bytes, tai_ns, &mut sink(flows));
        }
    }

    fn restart_streams(&mut self) {
        for stream in &mut self.streams {
            let flows = open_shard(self.turn, &mut self.open).map(|shard| &mut shard.flows);
            stream.restart(&mut sink(flows));
        }
    }

    fn mark(&mut self, mark: impl FnOnce(&mut Marks)) {
        if let Some(open) = &mut self.open {
            mark(&mut open.shard.marks);
        }
    }
}

/// The shard that records packets, if any.
#[inline]
fn open_shard(turn: Option<Epoch>, open: &mut Option<SealedWire>) -> Option<&mut WireShard> {
    turn.and(open.as_mut()).map(|open| open.shard.as_mut())
}

/// Destination of estimates of flows.
#[inline]
fn sink(mut flows: Option<&mut WireFlows>) -> impl FnMut(Estimates<'_, u32>) {
    move |estimates| {
        if let Some(flows) = &mut flows {
            flows.estimate(&estimates);
        }
    }
}
